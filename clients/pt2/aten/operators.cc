#include "clients/pt2/aten/operators.h"

#include <algorithm>

#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// The row under the target's exact name, its name without the overload, or the name of the
// operator that an in-place one is made of.
template <class Rows>
const typename Rows::mapped_type* find_row(const Rows& rows, std::string_view target) {
  auto lookup = [&rows](std::string_view name) {
    auto found = rows.find(name);
    return found == rows.end() ? nullptr : &found->second;
  };
  if (auto* exact = lookup(target)) return exact;
  size_t dot = target.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  std::string_view name = target.substr(0, dot);
  if (auto* any = lookup(name)) return any;
  if (!name.ends_with('_') || name.ends_with("__")) return nullptr;
  name.remove_suffix(1);
  if (auto* any = lookup(std::string(name) + std::string(target.substr(dot)))) return any;
  return lookup(name);
}

using Collected = std::vector<std::optional<NodeId>>;

// Sets results from their parts; those that are not complex have only the real one.
void set_joined(Context& c, const Collected& real, const Collected& imaginary) {
  for (size_t k = 0; k < c.output_count(); ++k) {
    if (k >= real.size() || !real[k]) continue;
    if (!c.out_is_complex(k)) {
      c.set(*real[k], k);
      continue;
    }
    if (k >= imaginary.size() || !imaginary[k]) c.refuse("complex numbers are not supported here");
    int axis = c.b.rank(*real[k]);
    c.set_complex(
        c.b.concat({c.b.unsqueeze(*real[k], axis), c.b.unsqueeze(*imaginary[k], axis)}, axis), k);
  }
}

void translate_linear(Context& c, Translator plain, std::string_view factor) {
  c.read_parts(Part::kReal);
  plain(c);
  Collected real = c.read_parts(Part::kImaginary, {{factor, Part::kReal}});
  plain(c);
  set_joined(c, real, c.read_parts(Part::kWhole));
}

// (a + ib)(c + id) = ac - bd + i(ad + bc); what is added to the product joins ac and ad.
void translate_bilinear(Context& c, Translator plain, std::string_view a, std::string_view b) {
  auto pass = [&](Part others, Part first, Part second) {
    c.read_parts(others, {{a, first}, {b, second}});
    plain(c);
    return c.read_parts(Part::kWhole);
  };
  Collected real = pass(Part::kReal, Part::kReal, Part::kReal);
  Collected both = pass(Part::kZero, Part::kImaginary, Part::kImaginary);
  Collected second = pass(Part::kImaginary, Part::kReal, Part::kImaginary);
  Collected first = pass(Part::kZero, Part::kImaginary, Part::kReal);
  for (size_t k = 0; k < real.size(); ++k) {
    if (!real[k]) continue;
    real[k] = sub(c, *real[k], *both[k]);
    second[k] = add(c, *second[k], *first[k]);
  }
  set_joined(c, real, second);
}

}  // namespace

bool OperatorTable::knows(std::string_view given) const {
  std::string target = canonical_target(given);
  return find_row(rows_, target) != nullptr || find_row(complex_, target) != nullptr;
}

bool OperatorTable::translate(Context& c, std::string_view given, bool complex) const {
  std::string target = canonical_target(given);
  const Row* plain = find_row(rows_, target);
  if (c.vmap_levels() > 0 && plain != nullptr && !works_in_vmap(target)) {
    c.refuse("it is not supported inside of torch.vmap; call run_decompositions()");
  }
  const ComplexRow* row = complex ? find_row(complex_, target) : nullptr;
  if (row != nullptr && row->form == Form::kOwn) {
    row->translator(c);
    return true;
  }
  if (plain == nullptr) return false;
  if (row == nullptr) {
    plain->translator(c);
  } else if (row->form == Form::kLinear) {
    translate_linear(c, plain->translator, row->first);
  } else {
    translate_bilinear(c, plain->translator, row->first, row->second);
  }
  return true;
}

std::vector<OperatorTable::Entry> OperatorTable::entries() const {
  std::vector<Entry> out;
  for (const auto& [name, row] : rows_) {
    out.push_back({row.family, name, complex_.contains(name)});
  }
  for (const auto& [name, row] : complex_) {
    if (!rows_.contains(name)) out.push_back({row.family, name, true});
  }
  std::sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.family, a.name) < std::pair(b.family, b.name);
  });
  return out;
}

}  // namespace clients
