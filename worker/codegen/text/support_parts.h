// The parts of a language's support code that kernels need: what a text names, what those parts
// name in turn, and what every text needs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace worker {

struct SupportPart {
  std::string_view text;
  bool is_always = false;
};

// Texts of parts in order, each of which uses earlier ones. A name of support code (lf_..., Lf...,
// LF_...) belongs to the part that has it first; one that macros paste (lf_wgmma_##type), to the
// part that has the longest beginning of it (lf_wgmma_).
std::string needed_support(const std::vector<SupportPart>& parts, std::string_view texts);

}  // namespace worker
