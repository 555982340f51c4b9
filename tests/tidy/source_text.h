// Source files as the style rules see them: which part of the tree they are in, their lines, and
// their code with comments and literals blanked out.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tidy {

struct SourceFile {
  std::string path;  // from the repository root, such as "common/ir/hlir/view.h"
  std::string text;
  std::string code;  // `text`, same length, where comments and literals are spaces

  bool is_header() const { return path.ends_with(".h") || path.ends_with(".cuh"); }
  bool is_cpp() const { return is_header() || path.ends_with(".cc"); }
  bool is_test() const { return path.starts_with("tests/"); }
  // Text of kernels: no program includes it.
  bool is_kernel_support() const {
    return path.starts_with("worker/codegen/") && path.find("/support/") != std::string::npos;
  }
  // The folder two levels deep ("common/ir"); empty for files above that.
  std::string component() const;
};

// Fills in `code`.
SourceFile make_source(std::string path, std::string text);

// What is between "#include " and the end of the line, delimiters kept: `"a/b.h"` or `<vector>`.
struct Include {
  int line = 0;
  std::string spelling;
};
std::vector<Include> includes_of(const SourceFile& file);

// A function with a body: its first line and how many lines run from its opening brace to its
// closing one. Lambdas count as part of the function around them.
struct Function {
  std::string name;       // as it is called without an object or a namespace; empty of operators
  bool is_local = false;  // in an anonymous namespace, and no member
  int line = 0;
  int length = 0;
  std::string comment;  // of the lines directly above it
};
std::vector<Function> functions_of(const SourceFile& file);

// The words that stand before a parenthesis without an object or a namespace in front: functions
// that are called or defined, among other words.
std::set<std::string> called_names(const SourceFile& file);

// A class, struct or union with a body: its first line, and how many data members it declares.
// Those of its bases and of types within it are not its own; static ones are nobody's.
struct Type {
  int line = 0;
  std::string name;
  int members = 0;
};
std::vector<Type> types_of(const SourceFile& file);

// `text` split at newlines, without them.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace tidy
