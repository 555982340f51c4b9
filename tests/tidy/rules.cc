#include "tests/tidy/rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

namespace tidy {
namespace {

constexpr int kFileLinesMax = 600;
constexpr int kFunctionLinesMax = 70;
constexpr int kMembersMax = 15;
constexpr size_t kEntriesMax = 30;

std::string at(const SourceFile& file, int line, const std::string& what) {
  return file.path + ":" + std::to_string(line) + ": " + what;
}

bool starts_with_any(std::string_view path, const std::vector<std::string_view>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return path.starts_with(prefix); });
}

// Who may include whom, first match wins. A prefix that ends in '/' covers a whole folder.
struct Arrow {
  std::string_view from;
  std::vector<std::string_view> to;
};

const std::vector<Arrow>& arrows() {
  static const std::vector<Arrow> kArrows = {
      {"common/base/", {}},
      {"common/process/", {"common/base/"}},
      {"common/http/", {"common/base/"}},
      {"common/shard/", {"common/base/"}},
      {"common/kubernetes/", {"common/base/", "common/http/", "common/shard/"}},
      {"common/metrics/", {"common/base/"}},
      {"common/records/", {"common/base/"}},
      {"common/sandbox/", {"common/base/", "common/process/"}},
      // Prices of kernels are made of the nests that schedules become, and those of the rates of
      // units.
      {"common/cost/kernels/",
       {"common/base/", "common/cost/", "common/ir/", "common/plan/", "common/schedule/"}},
      {"common/cost/", {"common/base/", "common/ir/"}},
      {"common/ir/", {"common/base/"}},
      {"common/text/", {"common/base/"}},
      {"common/plan/", {"common/base/", "common/ir/", "common/text/"}},
      {"common/lowering/", {"common/base/", "common/cost/", "common/ir/", "common/plan/"}},
      {"common/schedule/", {"common/base/", "common/cost/", "common/ir/", "common/lowering/"}},
      {"common/wire/", {"common/base/", "common/ir/", "common/plan/", "schemas/"}},
      {"common/cuda/", {"common/base/", "common/process/"}},
      {"common/runtime/",
       {"common/base/", "common/process/", "common/ir/", "common/plan/", "common/cuda/"}},
      {"cache/",
       {"common/base/", "common/http/", "common/ir/", "common/plan/", "common/shard/",
        "common/wire/", "cache/"}},
      {"coordinator/egraph/", {"common/base/"}},
      {"coordinator/farm/", {"common/base/"}},
      {"coordinator/shards/", {"common/base/", "common/shard/"}},
      // Not common/cuda, nor the runtime that loads it: a coordinator runs where there is no GPU.
      {"coordinator/",
       {"common/base/", "common/cost/", "common/http/", "common/ir/", "common/kubernetes/",
        "common/metrics/", "common/plan/", "common/process/", "common/sandbox/", "common/schedule/",
        "common/shard/", "common/text/", "common/wire/", "cache/", "coordinator/"}},
      {"worker/", {"common/", "cache/", "worker/"}},
      {"clients/pt2/", {"common/base/", "common/ir/", "common/text/"}},
      {"clients/", {"common/", "cache/", "clients/"}},
      {"tests/",
       {"common/", "cache/", "coordinator/", "worker/", "clients/", "schemas/", "tests/"}},
  };
  return kArrows;
}

// A folder's rooms, each of which may include itself and those before it. "": the folder's own
// files.
struct Rooms {
  std::string_view folder;
  std::vector<std::string_view> in_order;
};

const std::vector<Rooms>& rooms() {
  static const std::vector<Rooms> kRooms = {
      {"common/cost/", {"", "kernels/"}},
      {"common/ir/", {"expr/", "hlir/", "roll/", "nest/", "llir/", "tiled/"}},
      {"common/lowering/", {"text/", "body/", "attention/", "loops/"}},
      {"common/runtime/", {"tensor/", "interpreter/", "device/", "executor/", ""}},
      {"coordinator/rules/", {"matching/", ""}},
      {"coordinator/search/",
       {"partition/", "fusion/", "genes/", "records/", "memory/", "space/", "strategy/", "passes/",
        ""}},
      {"coordinator/search/partition/", {"rewrites/", ""}},
      {"coordinator/service/",
       {"loop/", "signing/", "observe/", "workers/", "shards/", "plans/", "sharing/", "journal/",
        "searchers/", "job/", "jobs/", "inspect/", "migration/", "", "web/", "command/"}},
      {"worker/agent/", {"observe/", "pipeline/", ""}},
      {"worker/codegen/c/", {"tile/", ""}},
      {"worker/codegen/cuda/", {"text/", "attention/", "tile/", ""}},
      {"worker/codegen/", {"text/", "body/", "", "c/", "cuda/"}},
      {"clients/pt2/",
       {"archive/", "aten/", "families/", "complex/", "images/", "gradients/", "linalg/",
        "special/", ""}},
      {"clients/report/", {"drawing/", "logs/", "", "llm/"}},
      {"clients/cli/", {"base/", "access/", "farm/", "models/", "plans/", "compare/", ""}},
      {"clients/runtime/", {"farm/", "model/", ""}},
  };
  return kRooms;
}

// The place of `path`, below the folder, among its rooms.
size_t room_of(const Rooms& folder, std::string_view path) {
  size_t own = folder.in_order.size();
  for (size_t k = 0; k < folder.in_order.size(); ++k) {
    if (folder.in_order[k].empty()) {
      own = k;
    } else if (path.starts_with(folder.in_order[k])) {
      return k;
    }
  }
  return own;
}

// Whether an include passes a wall between rooms.
bool is_against_rooms(const std::string& path, const std::string& target) {
  for (const Rooms& folder : rooms()) {
    if (!path.starts_with(folder.folder) || !target.starts_with(folder.folder)) continue;
    size_t from = room_of(folder, std::string_view(path).substr(folder.folder.size()));
    size_t to = room_of(folder, std::string_view(target).substr(folder.folder.size()));
    if (to > from) return true;
  }
  return false;
}

// The components that own a library, by the beginning of its headers' names. One each, except what
// every binary's driver needs: a command line, and JSON for people's tools.
struct Owner {
  std::string_view library;
  std::vector<std::string_view> components;
};

const std::vector<Owner>& owners() {
  static const std::vector<Owner> kOwners = {
      {"spdlog/", {"common/base/"}},
      {"sodium", {"common/base/"}},
      {"xxhash.h", {"common/base/"}},
      {"zmq", {"common/wire/"}},
      {"capnp/", {"common/wire/"}},
      {"kj/", {"common/wire/"}},
      {"cuda", {"common/cuda/"}},
      {"cublas", {"common/cuda/"}},
      {"nvrtc", {"common/cuda/"}},
      {"httplib.h", {"common/http/", "tests/cluster/"}},
      {"prometheus/", {"common/metrics/"}},
      {"rocksdb/", {"cache/store/"}},
      {"hiredis/", {"cache/remote/"}},
      {"openssl/", {"common/http/"}},
      {"sqlite3.h", {"common/records/"}},
      {"zip.h", {"clients/pt2/"}},
      {"simdjson", {"clients/pt2/"}},
      {"CLI/", {"clients/cli/", "coordinator/service/", "worker/agent/"}},
      {"lfarm.h", {"clients/runtime/include/", "clients/examples/"}},  // our own, once installed
      {"nlohmann/",
       {"clients/cli/", "clients/peers/", "clients/report/", "clients/score/", "common/kubernetes/",
        "coordinator/service/", "tests/cluster/"}},
  };
  return kOwners;
}

// Headers of the operating system and the C library; those of C++ have no dot.
bool is_system_header(std::string_view name) {
  if (name.find('.') == std::string_view::npos) return name.find('/') == std::string_view::npos;
  for (const char* folder : {"sys/", "arpa/", "netinet/", "net/", "linux/"}) {
    if (name.starts_with(folder)) return true;
  }
  constexpr std::array<std::string_view, 21> kNames = {
      "cpuid.h",  "dirent.h", "dlfcn.h",  "elf.h",    "errno.h",  "fcntl.h",   "immintrin.h",
      "link.h",   "malloc.h", "math.h",   "netdb.h",  "poll.h",   "pthread.h", "sched.h",
      "signal.h", "spawn.h",  "stddef.h", "stdint.h", "string.h", "termios.h", "unistd.h"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// What programs in C include.
bool is_c_header(const SourceFile& file) {
  return file.path.starts_with("clients/runtime/include/") && file.path.ends_with(".h");
}

std::string name_of(const SourceFile& file) { return file.path.substr(file.path.rfind('/') + 1); }

// The sources of `lfarm_component` that are not APART.
std::set<std::string> joined_sources(const std::string& lists) {
  std::istringstream words(lists.substr(std::min(lists.find("lfarm_component("), lists.size())));
  std::map<std::string, std::set<std::string>> named;
  std::string list;
  for (std::string word; words >> word;) {
    const bool is_last = word.ends_with(')');
    if (is_last) word.pop_back();
    if (std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isupper(c); })) {
      list = word;
    } else {
      named[list].insert(word);
    }
    if (is_last) break;
  }
  for (const std::string& name : named["APART"]) named["SOURCES"].erase(name);
  return named["SOURCES"];
}

}  // namespace

Violations include_direction(const SourceFile& file) {
  Violations found;
  for (const Include& include : includes_of(file)) {
    if (include.spelling.front() != '"') continue;
    const std::string target = include.spelling.substr(1, include.spelling.size() - 2);
    if (target.starts_with(".")) {
      found.push_back(at(file, include.line, target + ": include from the repository root"));
      continue;
    }
    const bool is_support = make_source(target, "").is_kernel_support();
    if (is_support != file.is_kernel_support()) {
      found.push_back(
          at(file, include.line,
             target + ": kernel support code is included by itself and by nothing else"));
    }
    if (is_support) continue;
    const bool is_beside = file.is_test() && target.find('/') == std::string::npos;
    if (is_against_rooms(file.path, target)) {
      found.push_back(
          at(file, include.line, target + ": it is against the order of rooms, see rules.cc"));
      continue;
    }
    if (is_beside || target.starts_with(file.component() + "/")) continue;
    const auto arrow = std::find_if(arrows().begin(), arrows().end(),
                                    [&](const Arrow& a) { return file.path.starts_with(a.from); });
    const bool allowed = arrow != arrows().end() && starts_with_any(target, arrow->to);
    if (!allowed) {
      found.push_back(at(file, include.line,
                         file.component() + " may not include " + target +
                             ": it is against the arrows between folders, see rules.cc"));
    }
  }
  return found;
}

Violations library_owner(const SourceFile& file) {
  Violations found;
  if (file.is_test()) return found;
  for (const Include& include : includes_of(file)) {
    if (include.spelling.front() != '<') continue;
    const std::string name = include.spelling.substr(1, include.spelling.size() - 2);
    if (is_system_header(name)) continue;
    const auto owner = std::find_if(owners().begin(), owners().end(), [&](const Owner& candidate) {
      return name.starts_with(candidate.library);
    });
    if (owner == owners().end()) {
      found.push_back(at(file, include.line, name + " has no owner: add it to rules.cc"));
    } else if (!starts_with_any(file.path, owner->components)) {
      found.push_back(at(
          file, include.line,
          name + " belongs to " + std::string(owner->components.front()) + ": use its interface"));
    }
  }
  return found;
}

Violations header_opening(const SourceFile& file) {
  Violations found;
  if (!file.is_header()) return found;
  if (is_c_header(file)) {
    if (!file.text.starts_with("/* ") || file.code.find("#ifndef ") == std::string::npos) {
      found.push_back(at(file, 1, "begin with a comment that C knows, and an include guard"));
    }
    return found;
  }
  if (!file.text.starts_with("// ")) {
    found.push_back(at(file, 1, "begin with one sentence: what this header is and why it exists"));
  }
  if (file.code.find("#pragma once") == std::string::npos) {
    found.push_back(at(file, 1, "no #pragma once"));
  }
  return found;
}

Violations lengths(const SourceFile& file) {
  Violations found;
  if (file.is_test() || !file.is_cpp()) return found;
  constexpr std::string_view kReason = "Long because";
  const std::vector<std::string_view> lines = lines_of(file.text);
  std::string opening;
  for (std::string_view line : lines) {
    if (!line.starts_with("//")) break;
    opening += line;
  }
  if (lines.size() > kFileLinesMax && opening.find(kReason) == std::string::npos) {
    found.push_back(at(file, 1,
                       std::to_string(lines.size()) + " lines, more than " +
                           std::to_string(kFileLinesMax) +
                           ": split it, or say \"Long because\" at its head"));
  }
  for (const Function& function : functions_of(file)) {
    if (function.length <= kFunctionLinesMax) continue;
    if (function.comment.find(kReason) != std::string::npos) continue;
    found.push_back(at(file, function.line,
                       "a function of " + std::to_string(function.length) + " lines, more than " +
                           std::to_string(kFunctionLinesMax) +
                           ": split it, or say \"Long because\" above it"));
  }
  return found;
}

Violations members(const SourceFile& file) {
  Violations found;
  if (file.is_test() || !file.is_cpp() || file.is_kernel_support()) return found;
  for (const Type& type : types_of(file)) {
    if (type.members <= kMembersMax) continue;
    found.push_back(at(file, type.line,
                       type.name + " has " + std::to_string(type.members) + " members, more than " +
                           std::to_string(kMembersMax) +
                           ": divide it into parts that own their data"));
  }
  return found;
}

Violations folder_sizes(const std::vector<SourceFile>& files) {
  std::map<std::string, std::set<std::string>> entries;
  for (const SourceFile& file : files) {
    for (std::string path = file.path;;) {
      size_t slash = path.rfind('/');
      if (slash == std::string::npos) break;
      entries[path.substr(0, slash)].insert(path.substr(slash + 1));
      path.resize(slash);
    }
  }
  Violations found;
  for (const auto& [folder, names] : entries) {
    if (names.size() <= kEntriesMax) continue;
    found.push_back(folder + ": " + std::to_string(names.size()) + " entries, of " +
                    std::to_string(kEntriesMax) + " at most; make a room of some of them");
  }
  return found;
}

Violations distinct_names(const std::vector<SourceFile>& sources, const std::string& lists) {
  const std::set<std::string> joined = joined_sources(lists);
  std::map<std::string, std::set<std::string>> users;  // of a name: the sources
  for (const SourceFile& file : sources) {
    if (!joined.contains(name_of(file))) continue;
    for (const std::string& name : called_names(file)) users[name].insert(file.path);
  }
  Violations found;
  for (const SourceFile& file : sources) {
    if (!joined.contains(name_of(file))) continue;
    for (const Function& function : functions_of(file)) {
      if (!function.is_local || function.name.empty()) continue;
      for (const std::string& user : users[function.name]) {
        if (user == file.path) continue;
        found.push_back(at(file, function.line,
                           function.name + " is a name in " + user +
                               ", too, and both may be compiled together: rename or share it, or "
                               "list one of them in APART"));
      }
    }
  }
  return found;
}

Violations file_name(const SourceFile& file) {
  const std::string name = name_of(file);
  const std::string stem = name.substr(0, name.rfind('.'));
  const bool good = file.path.find("CMakeLists.txt") != std::string::npos ||
                    std::all_of(stem.begin(), stem.end(), [](unsigned char c) {
                      return std::islower(c) || std::isdigit(c) || c == '_';
                    });
  if (good || !file.is_cpp()) return {};
  return {at(file, 1, "file names are snake_case")};
}

Violations words(const SourceFile& file) {
  Violations found;
  // In two parts, so that this file does not hold them.
  const std::vector<std::string> unwanted = {
      std::string("TO").append("DO"),   std::string("FIX").append("ME"),
      std::string("X").append("XX"),    std::string("HA").append("CK"),
      std::string("/wo").append("rk/"), std::string("/ho").append("me/"),
      std::string("/ro").append("ot/")};
  const std::vector<std::string_view> lines = lines_of(file.text);
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const std::string& word : unwanted) {
      const size_t start = lines[i].find(word);
      if (start == std::string_view::npos) continue;
      const auto is_letter = [&](size_t at) {
        return at < lines[i].size() && std::isalnum(static_cast<unsigned char>(lines[i][at]));
      };
      const bool is_path = word.front() == '/';
      if (is_path ? start > 0 && is_letter(start - 1)
                  : (start > 0 && is_letter(start - 1)) || is_letter(start + word.size())) {
        continue;
      }
      found.push_back(at(file, static_cast<int>(i) + 1,
                         "\"" + word + "\": " + (is_path ? "a path of one machine" : "finish it")));
    }
  }
  return found;
}

Violations listed(const SourceFile& file, const std::string& lists) {
  if (!file.is_cpp() || (file.is_test() && file.is_header())) return {};
  const std::string name = name_of(file);
  for (size_t start = lists.find(name); start != std::string::npos;
       start = lists.find(name, start + 1)) {
    const auto is_part = [&](size_t i) {
      return i < lists.size() && (std::isalnum(static_cast<unsigned char>(lists[i])) ||
                                  lists[i] == '_' || lists[i] == '.');
    };
    if ((start == 0 || !is_part(start - 1)) && !is_part(start + name.size())) return {};
  }
  return {at(file, 1,
             "not listed in the CMakeLists.txt beside it (tests: or above): nothing builds it")};
}

Violations named_files(const SourceFile& file,
                       const std::function<bool(const std::string&)>& exists) {
  Violations found;
  if (!file.path.ends_with(".md")) return found;
  // What people write; data such as "inputs/0.npy" lies in folders of their own.
  constexpr std::array<std::string_view, 8> kEndings = {".h",     ".cc", ".md",    ".txt",
                                                        ".cmake", ".py", ".capnp", ".sh"};
  const std::vector<std::string_view> lines = lines_of(file.text);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view rest = lines[i];
    for (size_t open = rest.find('`'); open != std::string_view::npos; open = rest.find('`')) {
      rest.remove_prefix(open + 1);
      const size_t close = std::min(rest.find('`'), rest.size());
      const std::string name(rest.substr(0, std::min(rest.find(' '), close)));
      rest.remove_prefix(std::min(close + 1, rest.size()));
      const bool is_path = name.find('/') != std::string::npos &&
                           std::any_of(kEndings.begin(), kEndings.end(),
                                       [&](std::string_view e) { return name.ends_with(e); });
      if (is_path && !exists(name)) {
        found.push_back(at(file, static_cast<int>(i) + 1, name + " does not exist"));
      }
    }
  }
  return found;
}

}  // namespace tidy
