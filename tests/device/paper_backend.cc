#include "tests/device/paper_backend.h"

#include "common/ir/hlir/text.h"
#include "tests/device/paper_device.h"

namespace paper {
namespace {

using common::Result;

class PaperGenerator final : public worker::CodeGenerator {
 public:
  std::string_view language() const override { return "paper"; }
  std::string preamble() const override { return ""; }
  Result<worker::KernelSource> generate(const common::Kernel& kernel) const override {
    worker::KernelSource source;
    source.entry.name = worker::entry_name(kernel);
    source.text = source.entry.name + "\n{\n" + common::print(kernel.body) + "}\n";
    return source;
  }
};

// Texts are joined by line ends, which no kernel begins with.
class PaperCompiler final : public worker::Compiler {
 public:
  Result<common::Bytes> compile(std::string_view source, int) const override {
    std::string object;
    for (size_t at = 0; at < source.size(); ++at) {
      bool between = source[at] == '\n' && (object.empty() || object.ends_with("\n}\n"));
      if (!between) object += source[at];
    }
    return common::to_bytes(common::as_bytes(object));
  }
  const common::Digest& identity() const override { return identity_; }
  std::string description() const override { return "paper"; }

 private:
  common::Digest identity_ = common::digest_of("paper compiler 1");
};

class PaperBackend final : public worker::Backend {
 public:
  std::string_view name() const override { return "paper"; }
  Result<common::Target> find() const override { return common::Target{kTarget}; }
  std::string libraries() const override { return "paper library 1"; }
  std::unique_ptr<const worker::CodeGenerator> make_generator(
      const common::Target&) const override {
    return std::make_unique<PaperGenerator>();
  }
  Result<std::shared_ptr<const worker::Compiler>> find_compiler(
      const common::Target&, std::shared_ptr<const common::Sandbox>) const override {
    return std::shared_ptr<const worker::Compiler>(std::make_shared<PaperCompiler>());
  }
  Result<std::unique_ptr<common::Device>> open(int) const override { return open_device(); }
};

}  // namespace

const worker::Backend& backend() {
  static const PaperBackend paper;
  return paper;
}

}  // namespace paper
