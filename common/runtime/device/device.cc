#include "common/runtime/device/device.h"

#include "common/base/cat.h"

namespace common {
namespace {

GemmOperandSizes evaluate(const GemmOperand& operand, std::span<const int64_t> symbols) {
  return {operand.offset.evaluate(symbols), operand.batch_stride.evaluate(symbols),
          operand.row_stride.evaluate(symbols), operand.column_stride.evaluate(symbols)};
}

// Whether [batch, rows, columns] under these strides stays inside [0, elements).
bool inside(const GemmOperandSizes& operand, int64_t batch, int64_t rows, int64_t columns,
            int64_t elements) {
  if (batch == 0 || rows == 0 || columns == 0) return true;
  int64_t last = operand.offset;
  const int64_t steps[][2] = {{batch - 1, operand.batch_stride},
                              {rows - 1, operand.row_stride},
                              {columns - 1, operand.column_stride}};
  if (operand.offset < 0) return false;
  for (const auto& [count, stride] : steps) {
    int64_t reach = 0;
    if (stride < 0 || __builtin_mul_overflow(count, stride, &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return false;
    }
  }
  return last < elements;
}

}  // namespace

GemmSizes evaluate(const GemmForm& form, std::span<const int64_t> symbols) {
  GemmSizes sizes;
  sizes.dtype = form.dtype;
  sizes.batch = form.batch.evaluate(symbols);
  sizes.m = form.m.evaluate(symbols);
  sizes.n = form.n.evaluate(symbols);
  sizes.k = form.k.evaluate(symbols);
  sizes.a = evaluate(form.a, symbols);
  sizes.b = evaluate(form.b, symbols);
  sizes.out = evaluate(form.out, symbols);
  return sizes;
}

Result<std::shared_ptr<std::byte[]>> Device::allocate_host(size_t bytes) {
  // In words, so that values of them are aligned.
  auto words = std::make_shared<int64_t[]>((bytes + 7) / 8);
  return std::shared_ptr<std::byte[]>(words, reinterpret_cast<std::byte*>(words.get()));
}

Status check_bounds(const GemmSizes& sizes, int64_t a_elements, int64_t b_elements,
                    int64_t out_elements) {
  if (sizes.batch < 0 || sizes.m < 0 || sizes.n < 0 || sizes.k < 0) {
    return corrupt("a library product has a negative size: fetch the plan again");
  }
  if (!inside(sizes.a, sizes.batch, sizes.m, sizes.k, a_elements) ||
      !inside(sizes.b, sizes.batch, sizes.k, sizes.n, b_elements) ||
      !inside(sizes.out, sizes.batch, sizes.m, sizes.n, out_elements)) {
    return corrupt(cat("a library product of sizes ", sizes.batch, "x", sizes.m, "x", sizes.n, "x",
                       sizes.k, " leaves its buffers: fetch the plan again"));
  }
  return {};
}

Result<std::vector<BoundTensorMap>> bind_tensor_maps(
    std::span<const TensorMap> maps, std::span<const int64_t> symbols,
    const std::function<int64_t(int input)>& input_bytes) {
  std::vector<BoundTensorMap> bound;
  for (const TensorMap& map : maps) {
    int64_t elements = input_bytes(map.input) / dtype_size(map.dtype);
    LFARM_ASSIGN_OR_RETURN(TensorMapSizes sizes, evaluate(map, symbols, elements));
    bound.push_back({sizes});
  }
  return bound;
}

Result<DeviceMemory> Device::allocate_zeros(size_t bytes) {
  LFARM_ASSIGN_OR_RETURN(DeviceMemory memory, allocate(bytes));
  LFARM_RETURN_IF_ERROR(fill(memory.data(), std::byte{0}, bytes));
  return memory;
}

Status Device::begin_stream(void*) {
  return invalid_input(cat(target().name, " has no streams: run without one"));
}

Result<bool> Device::is_captured(void*) { return false; }

Status Device::record(const std::function<Status()>&, std::unique_ptr<Recording>&) {
  return unsupported(cat(target().name, " records no launches"));
}
Status Device::replay(Recording&) {
  return unsupported(cat(target().name, " records no launches"));
}

}  // namespace common
