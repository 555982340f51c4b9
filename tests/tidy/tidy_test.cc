// Holds the whole tree to the rules of tests/tidy/rules.h, and each rule to a file that breaks it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/tidy/rules.h"

namespace tidy {
namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// .git is a file in a second working tree of a repository. Pictures hold no words.
bool is_skipped(const std::string& name) {
  return name == ".git" || name == "fixtures" || name.starts_with("build") ||
         name.ends_with(".png");
}

// Everything of the tree that people write, sorted by path.
std::vector<SourceFile> tree() {
  const fs::path root = LFARM_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    const std::string name = it->path().filename();
    const bool skipped = is_skipped(name);
    if (skipped && it->is_directory()) it.disable_recursion_pending();
    if (skipped || !it->is_regular_file()) continue;
    files.push_back(make_source(fs::relative(it->path(), root), slurp(it->path())));
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

// The text of CMakeLists.txt and *.cmake in the folder of `path`; of tests, in the one above too.
std::string lists_beside(const std::string& path) {
  fs::path folder = (fs::path(LFARM_SOURCE_DIR) / path).parent_path();
  if (folder.filename() == "include" || folder.filename() == "support") {
    folder = folder.parent_path();
  }
  std::string text;
  if (path.starts_with("tests/") && folder.parent_path() != fs::path(LFARM_SOURCE_DIR)) {
    text += lists_beside(fs::relative(folder, LFARM_SOURCE_DIR));
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name == "CMakeLists.txt" || name.ends_with(".cmake")) text += slurp(entry.path());
  }
  return text;
}

std::string report(const Violations& found) {
  std::string text;
  for (const std::string& line : found) text += "  " + line + "\n";
  return text;
}

void append(Violations& all, const Violations& more) {
  all.insert(all.end(), more.begin(), more.end());
}

TEST(Tidy, TheTreeKeepsTheRules) {
  const std::vector<SourceFile> files = tree();
  ASSERT_GT(files.size(), 100u) << "the tree is not where the test looks: " << LFARM_SOURCE_DIR;
  Violations all = folder_sizes(files);
  std::map<std::string, std::vector<SourceFile>> folders;
  for (const SourceFile& file : files) {
    if (file.path.ends_with(".cc")) folders[fs::path(file.path).parent_path()].push_back(file);
  }
  for (const auto& [folder, sources] : folders) {
    append(all, distinct_names(sources, lists_beside(sources.front().path)));
  }
  for (const SourceFile& file : files) {
    append(all, words(file));
    append(all, named_files(file, [](const std::string& path) {
             return fs::is_regular_file(fs::path(LFARM_SOURCE_DIR) / path);
           }));
    if (!file.is_cpp()) continue;
    append(all, include_direction(file));
    append(all, library_owner(file));
    append(all, header_opening(file));
    append(all, lengths(file));
    append(all, members(file));
    append(all, file_name(file));
    append(all, listed(file, lists_beside(file.path)));
  }
  EXPECT_TRUE(all.empty()) << all.size() << " breaches of the house rules:\n" << report(all);
}

SourceFile sample(std::string path, std::string text) {
  return make_source(std::move(path), std::move(text));
}

TEST(Tidy, FoldersAreSmall) {
  std::vector<SourceFile> files;
  for (int k = 0; k < 29; ++k) {
    files.push_back(sample("common/ir/file_" + std::to_string(k) + ".h", ""));
  }
  files.push_back(sample("common/ir/expr/a.h", ""));
  files.push_back(sample("common/ir/expr/b.h", ""));
  EXPECT_EQ(folder_sizes(files).size(), 0u);
  files.push_back(sample("common/ir/file_29.h", ""));
  EXPECT_EQ(folder_sizes(files).size(), 1u);
}

TEST(Tidy, IncludesFollowTheArrows) {
  EXPECT_EQ(include_direction(sample("common/ir/a.cc", "#include \"common/base/b.h\"\n")).size(),
            0u);
  EXPECT_EQ(include_direction(sample("common/ir/a.cc", "#include \"common/wire/b.h\"\n")).size(),
            1u);
  EXPECT_EQ(include_direction(sample("common/base/a.cc", "#include \"common/ir/b.h\"\n")).size(),
            1u);
  EXPECT_EQ(
      include_direction(sample("coordinator/search/a.cc", "#include \"common/cuda/b.h\"\n")).size(),
      1u);
  EXPECT_EQ(
      include_direction(sample("coordinator/egraph/a.cc", "#include \"common/ir/b.h\"\n")).size(),
      1u);
  EXPECT_EQ(include_direction(sample("clients/cli/a.cc", "#include \"worker/agent/b.h\"\n")).size(),
            1u);
  EXPECT_EQ(
      include_direction(sample("worker/agent/a.cc", "#include \"common/runtime/b.h\"\n")).size(),
      0u);
  EXPECT_EQ(include_direction(sample("common/ir/a.cc", "#include \"../base/b.h\"\n")).size(), 1u);
  auto climbs = [](const char* path, const char* text) {
    return include_direction(sample(path, text)).size();
  };
  EXPECT_EQ(climbs("common/ir/roll/a.cc", "#include \"common/ir/hlir/b.h\"\n"), 0u);
  EXPECT_EQ(climbs("common/ir/hlir/a.cc", "#include \"common/ir/roll/b.h\"\n"), 1u);
  EXPECT_EQ(climbs("clients/pt2/a.cc", "#include \"clients/pt2/aten/b.h\"\n"), 0u);
  EXPECT_EQ(climbs("clients/pt2/aten/a.cc", "#include \"clients/pt2/b.h\"\n"), 1u);
  EXPECT_EQ(climbs("worker/codegen/cuda/tile/a.cc", "#include \"worker/codegen/c/b.h\"\n"), 0u);
  EXPECT_EQ(climbs("worker/codegen/c/a.cc", "#include \"worker/codegen/c/support/b.h\"\n"), 1u);
  EXPECT_EQ(climbs("worker/codegen/c/support/a.h", "#include \"worker/codegen/c/b.h\"\n"), 1u);
  EXPECT_EQ(
      climbs("worker/codegen/text/support/a.h", "#include \"worker/codegen/cuda/support/b.cuh\"\n"),
      0u);
  EXPECT_EQ(include_direction(sample("common/ir/a.cc", "// #include \"common/wire/b.h\"\n")).size(),
            0u);
}

TEST(Tidy, LibrariesHaveOneOwner) {
  EXPECT_EQ(
      library_owner(sample("common/wire/a.cc", "#include <zmq.h>\n#include <vector>\n")).size(),
      0u);
  EXPECT_EQ(library_owner(sample("worker/agent/a.cc", "#include <zmq.h>\n")).size(), 1u);
  EXPECT_EQ(library_owner(sample("worker/agent/a.cc", "#include <boost/any.hpp>\n")).size(), 1u);
  EXPECT_EQ(library_owner(sample("worker/agent/a.cc", "#include <sys/wait.h>\n")).size(), 0u);
}

TEST(Tidy, HeadersOpenWithASentence) {
  EXPECT_EQ(header_opening(sample("a/b/c.h", "// What it is.\n#pragma once\n")).size(), 0u);
  EXPECT_EQ(header_opening(sample("a/b/c.h", "#pragma once\n// What it is.\n")).size(), 1u);
  EXPECT_EQ(header_opening(sample("a/b/c.cuh", "#pragma once\n// What it is.\n")).size(), 1u);
  EXPECT_EQ(header_opening(sample("a/b/c.h", "// What it is. #pragma once\n")).size(), 1u);
  const std::string c_header = "clients/runtime/include/c.h";
  EXPECT_EQ(header_opening(sample(c_header, "/* What it is. */\n#ifndef C_H\n")).size(), 0u);
  EXPECT_EQ(header_opening(sample(c_header, "// What it is.\n#pragma once\n")).size(), 1u);
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "  f();\n";
  return text;
}

TEST(Tidy, LengthsAreBounded) {
  EXPECT_EQ(lengths(sample("a/b/c.cc", "void g() {\n" + lines(68) + "}\n")).size(), 0u);
  EXPECT_EQ(lengths(sample("a/b/c.cc", "void g() {\n" + lines(69) + "}\n")).size(), 1u);
  EXPECT_EQ(
      lengths(sample("a/b/c.cc", "// Long because a table.\nvoid g() {\n" + lines(69) + "}\n"))
          .size(),
      0u);
  EXPECT_EQ(lengths(sample("a/b/c.cc", std::string(601, '\n'))).size(), 1u);
  EXPECT_EQ(
      lengths(sample("a/b/c.cc", "// Long because a table.\n" + std::string(601, '\n'))).size(),
      0u);
  EXPECT_EQ(lengths(sample("tests/b/c.cc", std::string(601, '\n'))).size(), 0u);
}

TEST(Tidy, FunctionsAreFoundWhereTheyAre) {
  const std::string text =
      "namespace n {\n"                                           // 1
      "class C : public B {\n"                                    // 2
      " public:\n"                                                // 3
      "  C() : a_{1}, b_(2) {\n"                                  // 4
      "    if (x) {\n      y();\n    }\n"                         // 5
      "  }\n"                                                     // 8
      "  int a_ = 0;\n"                                           // 9
      "};\n"                                                      // 10
      "template <class T>\nT twice(T x) {\n  return x + x;\n}\n"  // 11
      "const char* brace = \"{\"; char c = '{';  // {\n"          // 15
      "const char* raw = R\"({{{)\"; int n = 1'000;\n"            // 16
      "#define OPEN {\n"                                          // 17
      "int last() { return 1; }\n"                                // 18
      "}\n";
  std::vector<std::pair<int, int>> found;
  for (const Function& f : functions_of(sample("a/b/c.cc", text))) {
    if (f.length > 1 || f.line == 18) found.emplace_back(f.line, f.length);
  }
  const std::vector<std::pair<int, int>> expected = {{4, 5}, {11, 3}, {18, 1}};
  EXPECT_EQ(found, expected);
}

TEST(Tidy, MembersAreCountedWhereTheyAre) {
  const std::string text =
      "namespace n {\n"
      "struct Outer final : Base {\n"  // 2
      "  using List = std::vector<int>;\n"
      "  Outer() : a{1}, b(2) { int local = 0; }\n"
      "  bool operator<(const Outer& other) const { return a < other.a; }\n"
      "  static constexpr int kNone = 0;\n"
      "  struct Inner {\n"  // 7
      "    int x, y = 2;\n"
      "  };\n"
      "  enum class Kind { kOne, kTwo };\n"
      "  struct Later;\n"
      "  int a, b;\n"
      "  std::function<void(int, int)> done = {};\n"
      "  std::map<int, Inner> inner{{1, {}}};\n"
      "  const std::shared_ptr<int> self_ = std::make_shared<int>(1, 2);\n"
      " private:\n"
      "  struct stat info {};\n"
      "  int count() const;\n"
      "  Kind kind{Kind::kOne};\n"
      "};\n"
      "int global;\n"
      "}\n";
  std::vector<std::pair<std::string, int>> found;
  for (const Type& type : types_of(sample("a/b/c.h", text))) {
    found.emplace_back(type.name, type.members);
  }
  const std::vector<std::pair<std::string, int>> expected = {{"Inner", 2}, {"Outer", 7}};
  EXPECT_EQ(found, expected);
}

TEST(Tidy, MembersAreBounded) {
  const auto with = [](int count) {
    std::string text = "struct A {\n";
    for (int i = 0; i < count; ++i) text += "  int m" + std::to_string(i) + ";\n";
    return sample("a/b/c.h", text + "};\n");
  };
  EXPECT_EQ(members(with(15)).size(), 0u);
  EXPECT_EQ(members(with(16)).size(), 1u);
}

TEST(Tidy, SourcesCompiledTogetherHaveDistinctNames) {
  const std::string local =
      "namespace n {\n"
      "namespace {\n"
      "template <class T, class = std::function<void(T)>>\n"
      "std::vector<T> f(T x) {\n"
      "  return g(x.size(), std::max(x));\n"
      "}\n"
      "struct S {\n"
      "  int member() { return 1; }\n"
      "};\n"
      "int S::late() { return 1; }\n"
      "bool operator<(const S& a, const S& b) { return true; }\n"
      "}  // namespace\n"
      "int shared() { return 1; }\n"
      "}\n";
  const auto sources = [&](const std::string& body) {
    return std::vector<SourceFile>{sample("a/b/x.cc", local),
                                   sample("a/b/y.cc", "int h(S s) { return " + body + "; }")};
  };
  const auto count = [&](const std::string& body, const std::string& lists) {
    return distinct_names(sources(body), "lfarm_component(a/b\n  HEADERS x.h\n  " + lists + ")")
        .size();
  };
  EXPECT_EQ(count("f(2)", "SOURCES x.cc y.cc"), 1u);
  EXPECT_EQ(count("f(2)", "SOURCES x.cc y.cc\n  PUBLIC a/c"), 1u);
  EXPECT_EQ(count("f(2)", "SOURCES x.cc y.cc\n  APART y.cc"), 0u);
  EXPECT_EQ(count("f(2)", "SOURCES x.cc\n  LIBRARIES y)\nadd_library(l SOURCES y.cc"), 0u);
  EXPECT_EQ(count("s.f(2) + m::f(2)", "SOURCES x.cc y.cc"), 0u);
  EXPECT_EQ(count("member() + late() + shared()", "SOURCES x.cc y.cc"), 0u);
  // A definition looks like a call.
  const std::vector<SourceFile> both = {sample("a/b/x.cc", local), sample("a/b/y.cc", local)};
  EXPECT_EQ(distinct_names(both, "lfarm_component(a/b SOURCES x.cc y.cc)").size(), 2u);
}

TEST(Tidy, WordsOfUnfinishedWorkAreRefused) {
  const std::string mark =
      "TO"
      "DO";
  EXPECT_EQ(words(sample("a/b/c.cc", "// " + mark + ": more\n")).size(), 1u);
  EXPECT_EQ(words(sample("a/b/c.cc", "int MYS" + mark + ";\n")).size(), 0u);
  EXPECT_EQ(words(sample("a/b/c.txt",
                         "/ho"
                         "me/someone/x\n"))
                .size(),
            1u);
  EXPECT_EQ(words(sample("a/b/c.txt",
                         "build/wo"
                         "rk/x\n"))
                .size(),
            0u);
}

TEST(Tidy, SourcesAreListed) {
  EXPECT_EQ(listed(sample("a/b/c.cc", ""), "SOURCES b.cc c.cc)").size(), 0u);
  EXPECT_EQ(listed(sample("a/b/c.cc", ""), "SOURCES abc.cc c.cc.in)").size(), 1u);
  EXPECT_EQ(listed(sample("a/b/c.h", ""), "SOURCES c.cc").size(), 1u);
}

TEST(Tidy, PagesNameFilesThatExist) {
  const auto exists = [](const std::string& path) { return path == "a/b.h"; };
  EXPECT_EQ(named_files(sample("docs/c.md", "see `a/b.h`, `inputs/0.npy`, `b.h`\n"), exists).size(),
            0u);
  EXPECT_EQ(named_files(sample("docs/c.md", "`run` and\n`a/gone.cc x`, `a/b.cc`\n"), exists).size(),
            2u);
  EXPECT_EQ(named_files(sample("a/c.cc", "// `a/gone.cc`\n"), exists).size(), 0u);
}

TEST(Tidy, FileNamesAreSnakeCase) {
  EXPECT_EQ(file_name(sample("a/b/snake_case_2.cc", "")).size(), 0u);
  EXPECT_EQ(file_name(sample("a/b/CamelCase.cc", "")).size(), 1u);
  EXPECT_EQ(file_name(sample("a/b/with-dash.h", "")).size(), 1u);
}

}  // namespace
}  // namespace tidy
