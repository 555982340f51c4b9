// Hand-made plans and objects for the runtime's tests: C text in, shared object out.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/plan/plan.h"
#include "common/process/subprocess.h"

namespace common {

// The bytes of a shared object made of C source by the system's compiler; empty (and a failed
// test) when it does not compile. The source may use KERNEL(name) for an entry's head.
inline Bytes compile_object(const std::string& source) {
  static const std::string kHead =
      "#include <stdint.h>\n#include <stddef.h>\n"
      "#define KERNEL(name) void name(void* const* b, const int64_t* s, int64_t begin, "
      "int64_t end, void* scratch)\n";
  auto directory = ScratchDirectory::create("lfarm-test");
  std::string c = directory->path() + "/k.c", so = directory->path() + "/k.so";
  std::string text = kHead + source;
  if (!write_file_atomic(c, as_bytes(text)).ok()) return {};
  auto done = run_command({"cc", "-O1", "-shared", "-fPIC", "-o", so, c, "-lm"}, 600'000);
  if (!done.ok() || done->status.code != 0 || done->status.signal != 0) {
    ADD_FAILURE() << (done.ok() ? done->output : done.error().message);
    return {};
  }
  auto bytes = read_file(so);
  return bytes.ok() ? to_bytes(as_bytes(*bytes)) : Bytes{};
}

// Builds a Plan call by call.
struct PlanMaker {
  Plan plan;

  int add_buffer(BufferKind kind, int position, Shape shape, DType dtype = DType::kFloat32) {
    plan.buffers.push_back({kind, position, dtype, std::move(shape)});
    return static_cast<int>(plan.buffers.size()) - 1;
  }
  int input(Shape shape, InputKind kind = InputKind::kUser, DType dtype = DType::kFloat32) {
    plan.inputs.push_back({kind, dtype, shape, ""});
    return add_buffer(BufferKind::kInput, static_cast<int>(plan.inputs.size()) - 1, shape, dtype);
  }
  int output(Shape shape, DType dtype = DType::kFloat32) {
    plan.outputs.push_back({OutputKind::kUser, -1, -1});
    return add_buffer(BufferKind::kOutput, static_cast<int>(plan.outputs.size()) - 1, shape, dtype);
  }
  int mutate(int input_position, Shape shape, DType dtype = DType::kFloat32) {
    plan.outputs.push_back({OutputKind::kMutate, -1, input_position});
    return add_buffer(BufferKind::kOutput, static_cast<int>(plan.outputs.size()) - 1, shape, dtype);
  }
  int temporary(Shape shape, DType dtype = DType::kFloat32) {
    return add_buffer(BufferKind::kTemporary, 0, shape, dtype);
  }
  int kernel(const std::string& entry, Expr units = 1, int in_place_input = -1,
             Expr scratch_bytes = 0) {
    PlanKernel kernel;
    kernel.fingerprint = digest_of(entry);
    kernel.object = 0;
    kernel.entry = {entry, units, scratch_bytes, {}};
    if (in_place_input >= 0) kernel.in_place_inputs = {in_place_input};
    plan.kernels.push_back(kernel);
    return static_cast<int>(plan.kernels.size()) - 1;
  }
  void call(int kernel, std::vector<int> inputs, std::vector<int> outputs,
            std::vector<Expr> symbols = {}) {
    plan.calls.push_back({kernel, std::move(inputs), std::move(outputs), std::move(symbols)});
  }
  // The plan with `object` as its only object.
  Plan finish(const Bytes& object) {
    plan.objects = {digest_of(object)};
    return plan;
  }
};

}  // namespace common
