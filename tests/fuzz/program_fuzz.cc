// Goal: the JSON of an exported program, and the lists of its weights, are programs that translate
// to verified graphs, or are refused in one line.
// Method: the documents of the bundled archives, damaged as text; without the zip around them every
// damage reaches the reader.
#include "clients/pt2/archive/model_json.h"
#include "clients/pt2/archive/zip_archive.h"
#include "clients/pt2/translate.h"
#include "common/base/check.h"
#include "common/base/files.h"
#include "common/ir/hlir/verify.h"
#include "tests/fuzz/fuzz.h"
#include "tests/paths/paths.h"

namespace {

using clients::ExportInputKind;

constexpr int64_t kElementsMax = 1 << 12;

// An archive would bring the weights that the signature names; here all are zero. False for
// programs that no archive could be this small for.
bool bring_tensors(clients::ExportedProgram& program) {
  static const std::string zeros(16 * kElementsMax, 0);
  for (const clients::InputSpec& spec : program.inputs) {
    bool is_materialised = spec.kind == ExportInputKind::kParameter ||
                           spec.kind == ExportInputKind::kBuffer ||
                           spec.kind == ExportInputKind::kTensorConstant;
    auto* argument = std::get_if<clients::TensorArgument>(&spec.argument);
    if (!is_materialised || argument == nullptr) continue;
    const clients::TensorMeta& meta = program.graph.tensor_values.at(argument->name);
    clients::StoredTensor tensor;
    tensor.dtype = meta.dtype;
    int64_t elements = 1;
    for (const clients::Extent& size : meta.sizes) {
      bool is_small = size.value >= 0 && size.value <= kElementsMax;
      if (size.is_symbolic() || !is_small || (elements *= size.value) > kElementsMax) return false;
      tensor.sizes.push_back(size.value);
    }
    tensor.strides.assign(tensor.sizes.size(), 0);
    int64_t stride = 1;
    for (size_t axis = tensor.sizes.size(); axis-- > 0; stride *= tensor.sizes[axis]) {
      tensor.strides[axis] = stride;
    }
    tensor.storage = common::as_bytes(zeros);
    if (!clients::check_stored_tensor(tensor, spec.target).ok()) return false;
    program.tensors.emplace(spec.target, std::move(tensor));
  }
  return true;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> seeds;
  for (const char* name : {"/pt2/mlp.pt2", "/models/mlp_dynamic/model.pt2"}) {
    auto content = common::read_file(paths::fixtures() + name);
    LFARM_CHECK(content.ok(), content.error().message);
    auto zip = clients::ZipArchive::open({common::as_bytes(*content), nullptr}, "seed");
    LFARM_CHECK(zip.ok(), zip.error().message);
    for (const clients::ZipEntry& entry : (*zip)->entries()) {
      if (!entry.name.ends_with(".json")) continue;
      auto text = (*zip)->read(entry, size_t{1} << 20);
      if (text.ok()) seeds.push_back(std::move(*text));
    }
  }
  LFARM_CHECK(seeds.size() > 2, "the archives hold no documents");
  return seeds;
}

size_t fuzz::heap_bytes_max() { return size_t{128} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  std::string json(common::as_text(bytes));
  auto check = [](const common::Error& error) {
    LFARM_CHECK(error.message.find('\n') == std::string::npos, "an error is one line");
  };
  auto weights = clients::parse_weights_config(json);
  if (!weights.ok()) check(weights.error());
  auto program = clients::parse_program(json);
  if (!program.ok()) return check(program.error());
  if (!bring_tensors(*program)) return;
  auto model = clients::translate(*program);
  if (!model.ok()) return check(model.error());
  common::Status verified = common::verify(model->graph);
  LFARM_CHECK(verified.ok(), verified.error().message);
}
