// A stored tensor's elements in row-major order.
#include <cstring>

#include "clients/pt2/translate.h"

namespace clients {

bool is_contiguous(const StoredTensor& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] == 0) return true;
    if (tensor.sizes[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.sizes[i];
  }
  return true;
}

common::ByteView contiguous_view(const StoredTensor& tensor) {
  LFARM_CHECK(is_contiguous(tensor), "the tensor has gaps or another order");
  size_t bytes = scalar_type_bytes(tensor.dtype);
  size_t total = bytes;
  for (int64_t size : tensor.sizes) total *= static_cast<size_t>(size);
  if (total == 0) return {};
  return tensor.storage.subspan(static_cast<size_t>(tensor.storage_offset) * bytes, total);
}

common::Bytes contiguous_bytes(const StoredTensor& tensor) {
  if (is_contiguous(tensor)) return common::to_bytes(contiguous_view(tensor));
  size_t element = scalar_type_bytes(tensor.dtype);
  size_t rank = tensor.sizes.size();
  size_t total = 1;
  for (int64_t size : tensor.sizes) total *= static_cast<size_t>(size);
  common::Bytes out(total * element);
  // The innermost axis is a tight loop; the others count up like an odometer.
  auto inner = static_cast<size_t>(tensor.sizes[rank - 1]);
  size_t step = static_cast<size_t>(tensor.strides[rank - 1]) * element;
  std::vector<int64_t> position(rank, 0);
  int64_t offset = tensor.storage_offset;
  for (size_t done = 0; done < total; done += inner) {
    const std::byte* from = tensor.storage.data() + static_cast<size_t>(offset) * element;
    std::byte* to = out.data() + done * element;
    for (size_t i = 0; i < inner; ++i) std::memcpy(to + i * element, from + i * step, element);
    for (size_t axis = rank - 1; axis-- > 0;) {
      offset += tensor.strides[axis];
      if (++position[axis] < tensor.sizes[axis]) break;
      offset -= tensor.strides[axis] * tensor.sizes[axis];
      position[axis] = 0;
    }
  }
  return out;
}

}  // namespace clients
