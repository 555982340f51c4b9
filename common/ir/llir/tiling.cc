#include "common/ir/llir/tiling.h"

#include "common/ir/hlir/text_fields.h"

namespace common {

std::string print(const Tiling& tiling) {
  std::string out = tiling.form;
  for (const auto& [name, size] : tiling.sizes) {
    std::string text = size.text();
    out += size.is_constant() ? cat(" ", name, "=", text) : cat(" ", name, "=[", text, "]");
  }
  return out;
}

Result<Tiling> parse_tiling(std::string_view text) {
  auto wrong = [&] { return invalid_input(cat("'", text, "' is no tiling")); };
  std::string_view line = trim(text);
  size_t space = line.find(' ');
  Tiling tiling{std::string(line.substr(0, space)), {}};
  if (tiling.form.empty()) return wrong();
  if (space == std::string_view::npos) return tiling;
  auto fields = parse_fields(line.substr(space));
  if (!fields) return wrong();
  for (auto [name, value] : fields->entries) {
    if (name.empty() || name.find(' ') != std::string_view::npos) return wrong();
    if (value.starts_with('[')) value = value.substr(1, value.size() - 2);
    auto size = parse_expr(value);
    if (!size.ok() || !tiling.sizes.emplace(name, *size).second) return wrong();
  }
  return tiling;
}

}  // namespace common
