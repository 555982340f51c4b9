// The rules of the house that no compiler checks: which way includes point, who may include which
// library, names, sizes and words. Each rule is a function from a file to what is wrong with it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/tidy/source_text.h"

namespace tidy {

// "path:line: what is wrong, what to do", one each.
using Violations = std::vector<std::string>;

// Includes follow the arrows between folders, and never climb with "../".
Violations include_direction(const SourceFile& file);

// A third-party library's headers appear in the one component that owns it; tests may use any.
Violations library_owner(const SourceFile& file);

// `#pragma once`, and a first line that says what the header is.
Violations header_opening(const SourceFile& file);

// At most 600 lines a file and 70 a function. A file or a function that is better whole says so:
// its opening comment holds "Long because" and the reason. Tests are exempt: their tables are long.
Violations lengths(const SourceFile& file);

// At most 15 data members a type: one with more falls into parts that own their data. Those of
// before the rule are listed in rules.cc, and leave the list with their surplus. Tests are exempt.
Violations members(const SourceFile& file);

// At most 30 entries a folder: one with more falls into rooms. `files`: the tree, sorted by path.
Violations folder_sizes(const std::vector<SourceFile>& files);

// The sources of a component that may be compiled together (cmake/joined.cmake) keep functions to
// themselves that no other one of them defines or calls: overloads would be resolved among both
// without a word. Types and variables of one name are errors of the compiler. `lists` is the text
// of the folder's CMakeLists.txt, `sources` are the folder's.
Violations distinct_names(const std::vector<SourceFile>& sources, const std::string& lists);

// snake_case file names.
Violations file_name(const SourceFile& file);

// No marks of unfinished work, no paths of one machine.
Violations words(const SourceFile& file);

// Every source of a folder is named in the build description beside it: `lists` is the text of the
// folder's CMakeLists.txt and *.cmake files.
Violations listed(const SourceFile& file, const std::string& lists);

// The sources that a page of documentation names as `folder/file.ext` exist. `exists`: whether the
// tree holds a file under a path from its root.
Violations named_files(const SourceFile& file,
                       const std::function<bool(const std::string&)>& exists);

}  // namespace tidy
