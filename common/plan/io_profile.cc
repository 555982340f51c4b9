#include "common/plan/io_profile.h"

#include <algorithm>

namespace common {
namespace {

int64_t bytes_of(const Buffer& buffer, const std::vector<int64_t>& sizes) {
  int64_t bytes = dtype_size(buffer.dtype);
  for (const Expr& size : buffer.shape) bytes *= std::max<int64_t>(0, size.evaluate(sizes));
  return bytes;
}

}  // namespace

IoProfile io_profile(const std::vector<Buffer>& buffers, const std::vector<Call>& calls,
                     const std::vector<GraphOutput>& outputs, const std::vector<int64_t>& sizes) {
  IoProfile profile;
  std::vector<int64_t> bytes;
  for (const Buffer& buffer : buffers) bytes.push_back(bytes_of(buffer, sizes));
  profile.launches = static_cast<int64_t>(calls.size());
  for (const Call& call : calls) {
    for (int id : call.inputs) profile.device_bytes += bytes[static_cast<size_t>(id)];
    for (int id : call.outputs) profile.device_bytes += bytes[static_cast<size_t>(id)];
  }
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].kind != BufferKind::kOutput) continue;
    const GraphOutput& output = outputs[static_cast<size_t>(buffers[b].position)];
    if (output.kind != OutputKind::kMutate) profile.host_output_bytes += bytes[b];
  }
  // Calls follow one another on the device; only results make the host wait, once for all of them.
  profile.synchronisations = profile.launches != 0 && profile.host_output_bytes != 0 ? 1 : 0;
  return profile;
}

}  // namespace common
