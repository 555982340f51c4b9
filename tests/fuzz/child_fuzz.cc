// Goal: a worker bears whatever its executor and compile children write, whose memory a candidate
// may have scribbled over, and the children whatever comes.
// Method: a request and a reply of each, damaged, given to all four decoders.
#include <cmath>

#include "common/base/check.h"
#include "common/wire/ir_codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/wire/wire_samples.h"
#include "worker/compile/nvrtc_child.h"
#include "worker/profile/request.h"

std::vector<std::string> fuzz::seeds() {
  auto text = [](const common::Bytes& bytes) { return std::string(common::as_text(bytes)); };
  worker::ProfileRequest request;
  request.plan = common::sample_plan();
  request.graph_bytes = common::to_bytes(common::as_bytes("a graph"));
  request.objects = {{common::digest_of("o"), common::to_bytes(common::as_bytes("code"))}};
  request.verify.sizes = {{3, 4}, {5, 6}};
  worker::ProfileReply reply;
  reply.outcome = common::TaskOutcome::kOk;
  reply.message = "fine";
  reply.measured.call_ns = {3, 4};
  worker::NvrtcRequest compile;
  compile.arch = "sm_90a";
  compile.options = {"-fast", "-more"};
  compile.source = "__global__ void k() {}";
  worker::NvrtcReply compiled;
  compiled.ok = true;
  compiled.cubin = common::to_bytes(common::as_bytes("cubin"));
  compiled.options = {"-fast"};
  return {text(encode(request)), text(encode(reply)), text(encode(compile)),
          text(encode(compiled))};
}

size_t fuzz::heap_bytes_max() { return size_t{32} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto request = worker::decode_request(bytes);
  if (request.ok()) {
    LFARM_CHECK(common::verify(request->plan).ok(), "a request with a plan that is none");
  }
  auto reply = worker::decode_reply(bytes);
  if (reply.ok()) {
    LFARM_CHECK(reply->outcome <= common::TaskOutcome::kInfra, "an outcome that is none");
    auto again = worker::decode_reply(encode(*reply));
    LFARM_CHECK(again.ok() && again->message == reply->message &&
                    again->measured.call_ns == reply->measured.call_ns,
                "a reply changed on its way");
  }
  auto compile = worker::decode_nvrtc_request(bytes);
  if (compile.ok()) {
    auto again = worker::decode_nvrtc_request(encode(*compile));
    LFARM_CHECK(
        again.ok() && again->source == compile->source && again->options == compile->options,
        "a compile request changed on its way");
  }
  auto compiled = worker::decode_nvrtc_reply(bytes);
  if (compiled.ok()) {
    LFARM_CHECK(compiled->error.code <= common::Code::kInternal, "a code that is none");
  }
}
