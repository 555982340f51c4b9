#include "common/plan/tensor_map.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "common/base/cat.h"
#include "common/ir/llir/call_flow.h"

namespace common {
namespace {

constexpr int64_t kSizeMax = std::numeric_limits<int32_t>::max();  // coordinates are int32
constexpr int64_t kStrideBytesMax = int64_t{1} << 40;
constexpr DType kDTypes[] = {DType::kFloat16, DType::kBfloat16, DType::kFloat32};

// Of the distances of windows from a dimension's ends, the absolute value, by the number of
// dimensions that have windows.
constexpr int64_t kReachMax[] = {32768, 128, 16};

bool is_box(const TensorMap& map, size_t dimension) {
  int64_t box = map.dimensions[dimension].box;
  if (box < 1 || box > kTensorMapBoxMax) return false;
  if (dimension > 0) return true;
  int64_t bytes = box * dtype_size(map.dtype);
  return bytes % kTensorMapAlignment == 0 && (map.swizzle_bytes == 0 || bytes <= map.swizzle_bytes);
}

// Whether the dimensions between the first and the last have windows that a device takes, or none.
bool has_good_windows(const TensorMap& map) {
  const auto& dimensions = map.dimensions;
  for (size_t k = 0; k < dimensions.size(); ++k) {
    const auto& window = dimensions[k].window;
    bool is_place = k > 0 && k + 1 < dimensions.size();
    if (window.has_value() != (map.has_windows() && is_place)) return false;
    if (!window) continue;
    const int64_t reach = kReachMax[dimensions.size() - 3];
    if (dimensions[k].box != 1 || window->step < 1 || window->step > kTensorMapStepMax ||
        window->first < -reach || window->first >= reach) {
      return false;
    }
  }
  return true;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

template <class Number>
bool read(std::string_view text, Number& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read(std::string_view text, Expr& expr) {
  auto parsed = parse_expr(text);
  if (parsed.ok()) expr = *parsed;
  return parsed.ok();
}

Error cannot_encode(std::string_view why) {
  return corrupt(cat("a tensor map ", why, ": fetch the plan again"));
}

}  // namespace

Status verify(const TensorMap& map, size_t inputs, size_t symbols) {
  const auto& dimensions = map.dimensions;
  if (map.input < 0 || static_cast<size_t>(map.input) >= inputs) {
    return corrupt("a tensor map of no input");
  }
  if (dimensions.empty() || dimensions.size() > kTensorMapDimensionsMax ||
      !dimensions[0].stride.is_constant(1)) {
    return corrupt("a tensor map's dimensions");
  }
  if (std::find(std::begin(kDTypes), std::end(kDTypes), map.dtype) == std::end(kDTypes)) {
    return corrupt(cat("a tensor map of ", dtype_name(map.dtype)));
  }
  bool is_swizzle = map.swizzle_bytes == 0 || map.swizzle_bytes == 32 || map.swizzle_bytes == 64 ||
                    map.swizzle_bytes == 128;
  if (!is_swizzle) return corrupt("a tensor map's swizzle");
  if (!has_good_windows(map)) return corrupt("a tensor map's windows");
  bool in_scope = symbols_in_scope(map.offset, symbols);
  for (size_t k = 0; k < dimensions.size(); ++k) {
    if (!is_box(map, k)) return corrupt("a tensor map's box");
    in_scope = in_scope && symbols_in_scope(dimensions[k].size, symbols) &&
               symbols_in_scope(dimensions[k].stride, symbols);
    const auto& window = dimensions[k].window;
    in_scope = in_scope && (!window || symbols_in_scope(window->count, symbols));
  }
  return in_scope ? Status() : corrupt("unknown symbol in a tensor map");
}

std::string print(const TensorMap& map) {
  std::string text =
      cat(map.input, "|", dtype_name(map.dtype), "|", map.swizzle_bytes, "|", map.offset.text());
  for (const TensorMap::Dimension& d : map.dimensions) {
    text += cat("|", d.size.text(), ":", d.box, ":", d.stride.text());
    if (!d.window) continue;
    text += cat(":", d.window->first, ":", d.window->step, ":", d.window->count.text());
  }
  return text;
}

std::optional<TensorMap> parse_tensor_map(std::string_view text) {
  std::vector<std::string_view> parts = split(text, '|');
  if (parts.size() < 5 || parts.size() > 4 + kTensorMapDimensionsMax) return std::nullopt;
  TensorMap map;
  const auto* dtype = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](DType each) { return dtype_name(each) == parts[1]; });
  if (dtype == std::end(kDTypes) || !read(parts[0], map.input) ||
      !read(parts[2], map.swizzle_bytes) || !read(parts[3], map.offset)) {
    return std::nullopt;
  }
  map.dtype = *dtype;
  for (size_t k = 4; k < parts.size(); ++k) {
    std::vector<std::string_view> fields = split(parts[k], ':');
    TensorMap::Dimension d;
    if ((fields.size() != 3 && fields.size() != 6) || !read(fields[0], d.size) ||
        !read(fields[1], d.box) || !read(fields[2], d.stride)) {
      return std::nullopt;
    }
    if (fields.size() == 6) {
      d.window.emplace();
      if (!read(fields[3], d.window->first) || !read(fields[4], d.window->step) ||
          !read(fields[5], d.window->count)) {
        return std::nullopt;
      }
    }
    map.dimensions.push_back(std::move(d));
  }
  return map;
}

Result<TensorMapSizes> evaluate(const TensorMap& map, std::span<const int64_t> symbols,
                                int64_t elements) {
  TensorMapSizes sizes;
  sizes.input = map.input;
  sizes.dtype = map.dtype;
  sizes.swizzle_bytes = map.swizzle_bytes;
  sizes.offset = map.offset.evaluate(symbols);
  sizes.rank = map.dimensions.size();
  const int64_t width = dtype_size(map.dtype);
  bool is_empty = false;
  __int128 last = sizes.offset;
  for (size_t k = 0; k < sizes.rank; ++k) {
    const TensorMap::Dimension& d = map.dimensions[k];
    TensorMapSizes::Dimension& to = sizes.dimensions[k];
    to = {d.size.evaluate(symbols), d.stride.evaluate(symbols), d.box};
    is_empty = is_empty || to.size <= 0;
    if (d.window) {
      const int64_t count = d.window->count.evaluate(symbols);
      is_empty = is_empty || count <= 0;
      to.step = d.window->step;
      to.lower = d.window->first;
      to.upper = to.lower + (std::max<int64_t>(count, 1) - 1) * to.step - (to.size - 1);
    }
    last += static_cast<__int128>(to.size - 1) * to.stride;
  }
  for (size_t k = 0; k < sizes.rank; ++k) {
    TensorMapSizes::Dimension& to = sizes.dimensions[k];
    if (to.size > kSizeMax) return cannot_encode(cat("of ", to.size, " elements in a dimension"));
    if (is_empty) to.lower = to.upper = 0;
    if (to.step > 0) {
      const int64_t reach = kReachMax[sizes.rank - 3];
      if (to.upper < -reach || to.upper >= reach) {
        return cannot_encode(cat("of windows that end ", to.upper, " beyond a dimension"));
      }
    }
    to.size = std::max<int64_t>(to.size, 1);
    bool is_stride = to.stride > 0 && to.stride < kStrideBytesMax / width &&
                     (k == 0 || to.stride * width % kTensorMapAlignment == 0);
    // No stride is read of one element, or of a tensor without any.
    bool is_read = to.size > 1 && !is_empty;
    if (!is_stride && is_read) return cannot_encode(cat("with a stride of ", to.stride));
    if (!is_stride) to.stride = kTensorMapAlignment / width;
  }
  if (sizes.offset < 0 || sizes.offset * width % kTensorMapAlignment != 0) {
    return cannot_encode(cat("that begins at element ", sizes.offset));
  }
  if (!is_empty && last >= elements) return cannot_encode("leaves its input");
  return sizes;
}

}  // namespace common
