#include "worker/compile/nvrtc_child.h"

#include <sys/resource.h>
#include <unistd.h>

#include <memory>

#include "common/base/cat.h"
#include "common/cuda/nvrtc.h"
#include "common/process/pipe.h"
#include "common/sandbox/sandbox.h"

namespace worker {
using common::Bytes;
using common::ByteView;
using common::FrameReader;
using common::FrameWriter;
using common::Nvrtc;
using common::Result;

namespace {

// The last code there is, for replies that are read back.
constexpr uint64_t kCodeMax = static_cast<uint64_t>(common::Code::kInternal);

void write_strings(FrameWriter& w, const std::vector<std::string>& strings) {
  w.u64(strings.size());
  for (const std::string& text : strings) w.bytes(common::as_bytes(text));
}

std::vector<std::string> read_strings(FrameReader& r) {
  std::vector<std::string> strings(r.count());
  for (std::string& text : strings) text = common::as_text(r.bytes());
  return strings;
}

NvrtcReply failed(common::Error error) {
  NvrtcReply reply;
  reply.error = std::move(error);
  return reply;
}

NvrtcReply describe(const Nvrtc& nvrtc, const NvrtcRequest& request) {
  if (!nvrtc.supports(request.arch)) {
    return failed(common::unavailable(common::cat(
        nvrtc.library(), " ", nvrtc.major_version(), ".", nvrtc.minor_version(),
        " does not compile for ", request.arch, "; install a CUDA that is as new as the device")));
  }
  // An installation that lacks a part says so at the first text.
  auto nothing = nvrtc.compile("", request.arch, {});
  if (!nothing.ok()) return failed(common::unavailable(nothing.error().message));
  NvrtcReply reply;
  reply.ok = true;
  reply.build = nvrtc.build();
  reply.note = nvrtc.compromise();
  for (const std::string& option : request.options) {
    if (nvrtc.compile("", request.arch, {option}).ok()) reply.options.push_back(option);
  }
  return reply;
}

NvrtcReply answer(const Nvrtc& nvrtc, const NvrtcRequest& request) {
  if (request.describe) return describe(nvrtc, request);
  auto output = nvrtc.compile(request.source, request.arch, request.options);
  if (!output.ok()) return failed(output.error());
  NvrtcReply reply;
  reply.ok = true;
  reply.cubin = std::move(output->cubin);
  return reply;
}

}  // namespace

Bytes encode(const NvrtcRequest& request) {
  FrameWriter w;
  w.u64(request.describe ? 1 : 0);
  w.bytes(common::as_bytes(request.arch));
  write_strings(w, request.options);
  w.bytes(common::as_bytes(request.source));
  w.u64(request.timeout_s);
  return w.take();
}

Result<NvrtcRequest> decode_nvrtc_request(ByteView frame) {
  FrameReader r(frame);
  NvrtcRequest request;
  request.describe = r.u64() != 0;
  request.arch = common::as_text(r.bytes());
  request.options = read_strings(r);
  request.source = common::as_text(r.bytes());
  request.timeout_s = r.u64();
  if (!r.ok()) return common::corrupt("a request to the compile child is damaged");
  return request;
}

Bytes encode(const NvrtcReply& reply) {
  FrameWriter w;
  w.u64(reply.ok ? 1 : 0);
  w.u64(static_cast<uint64_t>(reply.error.code));
  w.bytes(common::as_bytes(reply.error.message));
  w.bytes(reply.cubin);
  w.bytes(common::as_bytes(reply.build));
  w.bytes(common::as_bytes(reply.note));
  write_strings(w, reply.options);
  return w.take();
}

Result<NvrtcReply> decode_nvrtc_reply(ByteView frame) {
  FrameReader r(frame);
  NvrtcReply reply;
  reply.ok = r.u64() != 0;
  uint64_t code = r.u64();
  reply.error.code = static_cast<common::Code>(code);
  reply.error.message = common::as_text(r.bytes());
  reply.cubin = common::to_bytes(r.bytes());
  reply.build = common::as_text(r.bytes());
  reply.note = common::as_text(r.bytes());
  reply.options = read_strings(r);
  if (!r.ok() || code > kCodeMax) return common::corrupt("the compile child's answer is damaged");
  return reply;
}

int run_nvrtc_child(int fd, int driver_version) {
  common::hide_memory();
  rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // Before the first request comes, since loading takes longer than most of them.
  auto nvrtc = Nvrtc::open(driver_version);
  while (true) {
    auto frame = common::read_frame(fd);
    if (!frame.ok()) return 0;
    auto request = decode_nvrtc_request(*frame);
    if (!request.ok()) return 1;
    ::alarm(static_cast<unsigned>(request->timeout_s));
    NvrtcReply reply = nvrtc.ok() ? answer(**nvrtc, *request) : failed(nvrtc.error());
    ::alarm(0);
    if (!common::write_frame(fd, encode(reply)).ok()) return 0;
  }
}

}  // namespace worker
