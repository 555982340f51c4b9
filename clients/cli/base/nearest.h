// The known word that a mistyped one is closest to, for "did you mean".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clients {

// The word of `known` with the least edit distance (insertions, deletions, substitutions and swaps
// of neighbours), the first of several: nearest("submt", {"status", "submit"}) is "submit". Empty
// where even that takes more than a third of the word's letters, and more than one edit.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace clients
