// Goal: an array file is an array whose bytes lie inside the file, or is refused in one line.
// Method: files of several types, damaged; what is read must convert and survive a round trip.
#include "clients/cli/models/npy.h"
#include "common/base/check.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::string file(common::DType dtype, std::vector<int64_t> sizes) {
  auto tensor = common::HostTensor::zeros(dtype, std::move(sizes));
  LFARM_CHECK(tensor.ok(), tensor.error().message);
  return std::string(common::as_text(clients::npy_from_tensor(*tensor, false)));
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {file(common::DType::kFloat32, {2, 3}), file(common::DType::kInt64, {}),
          file(common::DType::kBool, {4, 0, 2}), file(common::DType::kBfloat16, {1, 5})};
}

size_t fuzz::heap_bytes_max() { return size_t{8} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto array = clients::parse_npy(bytes);
  if (!array.ok()) {
    LFARM_CHECK(array.error().message.find('\n') == std::string::npos, "an error is one line");
    return;
  }
  LFARM_CHECK(array->data.data() >= bytes.data() &&
                  array->data.data() + array->data.size() <= bytes.data() + bytes.size(),
              "an array beyond its file");
  for (common::DType dtype : {common::DType::kFloat32, common::DType::kInt64, common::DType::kBool,
                              common::DType::kBfloat16}) {
    auto tensor = clients::tensor_from_npy(*array, dtype, false);
    if (!tensor.ok()) continue;
    common::Bytes again = clients::npy_from_tensor(*tensor, false);
    auto read = clients::parse_npy(again);
    LFARM_CHECK(read.ok() && read->sizes == array->sizes, "an array changed on its way");
  }
}
