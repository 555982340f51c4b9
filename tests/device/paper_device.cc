#include "tests/device/paper_device.h"

#include <cstdlib>
#include <cstring>
#include <map>

#include "common/base/clock.h"
#include "common/ir/hlir/text.h"
#include "common/runtime/interpreter/interpreter.h"
#include "tests/device/paper_backend.h"

namespace paper {
namespace {

using common::Graph;
using common::HostTensor;
using common::Result;
using common::Status;

class PaperModule final : public common::Module {
 public:
  explicit PaperModule(std::map<std::string, Graph> kernels) : kernels_(std::move(kernels)) {}
  Result<common::Function> entry(const std::string& name) const override {
    auto it = kernels_.find(name);
    if (it == kernels_.end()) return common::corrupt("the paper does not say " + name);
    return common::Function{&it->second};
  }

 private:
  std::map<std::string, Graph> kernels_;
};

class PaperTimer final : public common::Timer {
 public:
  void mark() override { marks_.push_back(clock_.now_ns()); }
  Result<std::vector<int64_t>> take_intervals_ns() override {
    std::vector<int64_t> intervals;
    for (size_t k = 1; k < marks_.size(); ++k) intervals.push_back(marks_[k] - marks_[k - 1]);
    marks_.clear();
    return intervals;
  }

 private:
  common::SteadyClock clock_;
  std::vector<int64_t> marks_;
};

class PaperDevice final : public common::Device {
 public:
  const common::Target& target() const override { return target_; }
  bool uses_host_memory() const override { return false; }
  int concurrency() const override { return 1; }

  Result<std::shared_ptr<common::Module>> load(const common::Digest&,
                                               common::ByteView object) override {
    std::map<std::string, Graph> kernels;
    std::string_view text = common::as_text(object);
    while (!text.empty()) {
      size_t begin = text.find("\n{\n"), end = text.find("\n}\n");
      if (begin >= end || end == std::string_view::npos) return common::corrupt("a torn paper");
      LFARM_ASSIGN_OR_RETURN(Graph body,
                             common::parse_graph(text.substr(begin + 3, end - begin - 2)));
      kernels.emplace(text.substr(0, begin), std::move(body));
      text.remove_prefix(end + 3);
    }
    return std::shared_ptr<common::Module>(std::make_shared<PaperModule>(std::move(kernels)));
  }

  Result<common::DeviceMemory> allocate(size_t bytes) override {
    size_t rounded = (bytes + common::kBufferAlignment) / common::kBufferAlignment;
    void* memory = std::aligned_alloc(common::kBufferAlignment, rounded * common::kBufferAlignment);
    if (memory == nullptr) return common::unavailable("no paper left");
    return common::DeviceMemory(this, static_cast<std::byte*>(memory), bytes);
  }
  Status copy_in(std::byte* device, common::ByteView host) override {
    return copy(device, host.data(), host.size());
  }
  Status copy_out(std::span<std::byte> host, const std::byte* device) override {
    return copy(host.data(), device, host.size());
  }
  Status copy(std::byte* to, const std::byte* from, size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);
    return {};
  }
  Status fill(std::byte* device, std::byte value, size_t bytes) override {
    if (bytes > 0) std::memset(device, static_cast<int>(value), bytes);
    return {};
  }

  Status launch(const common::Launch& launch) override {
    Graph body = *static_cast<const Graph*>(launch.function.handle);
    std::vector<int64_t> symbols(launch.symbols.begin(), launch.symbols.end());
    std::vector<HostTensor> inputs;
    for (size_t k = 0; k < body.inputs.size(); ++k) {
      auto sizes = common::evaluate_shape(body.inputs[k].shape, symbols);
      LFARM_ASSIGN_OR_RETURN(HostTensor input, tensor(body.inputs[k].dtype, sizes, launch, k));
      inputs.push_back(std::move(input));
    }
    // The interpreter reads symbols off its inputs.
    for (size_t s = 0; s < symbols.size(); ++s) {
      auto symbol = common::Expr::symbol(static_cast<int>(s));
      body.inputs.push_back({common::InputKind::kUser, common::DType::kBool, {symbol}, ""});
      LFARM_ASSIGN_OR_RETURN(HostTensor witness,
                             HostTensor::zeros(common::DType::kBool, {symbols[s]}));
      inputs.push_back(std::move(witness));
    }
    LFARM_ASSIGN_OR_RETURN(auto outputs, common::interpret(body, inputs, {}));
    for (size_t k = 0; k < outputs.size(); ++k) {
      auto* to =
          static_cast<std::byte*>(launch.buffers[launch.buffers.size() - outputs.size() + k]);
      LFARM_RETURN_IF_ERROR(copy_in(to, outputs[k].bytes()));
    }
    return {};
  }
  Status gemm(const common::GemmSizes&, const void*, const void*, void*) override {
    return common::unavailable("no library of products");
  }
  bool has_gemm() const override { return false; }
  Status synchronise() override { return {}; }
  std::unique_ptr<common::Timer> make_timer(size_t) override {
    return std::make_unique<PaperTimer>();
  }

 private:
  void release(std::byte* data, size_t) override { std::free(data); }

  static Result<HostTensor> tensor(common::DType dtype, const std::vector<int64_t>& sizes,
                                   const common::Launch& launch, size_t buffer) {
    LFARM_ASSIGN_OR_RETURN(int64_t count, common::checked_element_count(dtype, sizes));
    auto bytes = static_cast<size_t>(count * common::dtype_size(dtype));
    return HostTensor::copy_of(dtype, sizes,
                               {static_cast<const std::byte*>(launch.buffers[buffer]), bytes});
  }

  const common::Target target_{kTarget};
};

}  // namespace

std::unique_ptr<common::Device> open_device() { return std::make_unique<PaperDevice>(); }

}  // namespace paper
