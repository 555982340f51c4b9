#include "clients/pt2/archive/archive.h"

#include <utility>

#include "clients/pt2/archive/model_json.h"
#include "clients/pt2/archive/one_line.h"
#include "clients/pt2/archive/pickle.h"
#include "clients/pt2/archive/zip_archive.h"
#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::cat;
using common::corrupt;
using common::invalid_input;
using common::Result;
using common::Status;

constexpr std::string_view kArchiveVersion = "0";
constexpr std::string_view kFlatProgram = "serialized_exported_program.json";

using TensorMap = std::unordered_map<std::string, StoredTensor>;

Status add_tensor(std::string name, StoredTensor tensor, TensorMap* tensors) {
  LFARM_RETURN_IF_ERROR(check_stored_tensor(tensor, name));
  auto [place, fresh] = tensors->emplace(std::move(name), std::move(tensor));
  if (!fresh) return corrupt(cat("two weights are named '", place->first, "'"));
  return {};
}

Result<std::string> read_marker(ZipArchive* zip, const std::string& name) {
  const ZipEntry* entry = zip->find(name);
  if (entry == nullptr) return std::string();
  LFARM_ASSIGN_OR_RETURN(std::string text, zip->read(*entry, kMaxMarkerBytes));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

Status check_byte_order(ZipArchive* zip, const std::string& prefix) {
  LFARM_ASSIGN_OR_RETURN(std::string order, read_marker(zip, prefix + "byteorder"));
  if (order.empty() || order == "little") return {};
  return invalid_input(cat(zip->label(), ": byte order '", order,
                           "' is not read; export the model on a little-endian machine"));
}

// A tensor of an inner archive that torch.save wrote: "<prefix>/data.pkl" and "<prefix>/data/N".
Result<StoredTensor> tensor_of(const Pickle& pickle, const PickleObject& object, ZipArchive* zip,
                               const std::string& prefix) {
  const PickleObject& storage = pickle[object.items[0]];
  const ZipEntry* entry = zip->find(cat(prefix, "data/", storage.text));
  if (entry == nullptr) {
    return corrupt(cat(zip->label(), ": storage '", storage.text, "' is missing"));
  }
  LFARM_ASSIGN_OR_RETURN(SharedBytes bytes, zip->view(*entry));
  StoredTensor tensor;
  tensor.dtype = object.dtype;
  tensor.sizes = object.sizes;
  tensor.strides = object.strides;
  tensor.storage_offset = object.integer;
  tensor.storage = bytes.bytes;
  tensor.owner = std::move(bytes.owner);
  return tensor;
}

struct TorchSave {
  std::shared_ptr<ZipArchive> zip;
  std::string prefix;  // of its entries, with the slash
  Pickle pickle;
};

Result<TorchSave> open_torch_save(const ZipArchive& outer, SharedBytes bytes, std::string label) {
  TorchSave out;
  Pt2Limits limits = outer.limits_left();
  LFARM_ASSIGN_OR_RETURN(out.zip, ZipArchive::open(std::move(bytes), std::move(label), limits));
  constexpr std::string_view kSuffix = "data.pkl";
  for (const ZipEntry& entry : out.zip->entries()) {
    std::string_view name = entry.name;
    bool top = name.find('/') == name.rfind('/');
    if (!top || !name.ends_with(kSuffix)) continue;
    out.prefix = name.substr(0, name.size() - kSuffix.size());
    LFARM_RETURN_IF_ERROR(check_byte_order(out.zip.get(), out.prefix));
    LFARM_ASSIGN_OR_RETURN(std::string text, out.zip->read(entry, limits.graph_bytes_max));
    auto pickle = read_pickle(common::as_bytes(text), limits);
    if (!pickle.ok()) {
      return common::Error{pickle.error().code,
                           cat(out.zip->label(), ": ", pickle.error().message)};
    }
    out.pickle = std::move(*pickle);
    return out;
  }
  return corrupt(cat(out.zip->label(), ": it holds no data.pkl"));
}

// Adds the tensors of a pickled dict from names to tensors; other values are left out, because a
// constant may also be a scripted object, which matters only where the graph uses it.
Status add_pickled_tensors(ZipArchive* zip, SharedBytes bytes, std::string label,
                           TensorMap* tensors) {
  LFARM_ASSIGN_OR_RETURN(TorchSave saved,
                         open_torch_save(*zip, std::move(bytes), std::move(label)));
  const PickleObject& root = saved.pickle[saved.pickle.root];
  if (root.kind != PickleKind::kDict) {
    return corrupt(cat(saved.zip->label(), ": it holds no dict of tensors"));
  }
  for (const auto& [key, value] : root.pairs) {
    const PickleObject& name = saved.pickle[key];
    const PickleObject& object = saved.pickle[value];
    if (name.kind != PickleKind::kText || object.kind != PickleKind::kTensor) continue;
    LFARM_ASSIGN_OR_RETURN(StoredTensor tensor,
                           tensor_of(saved.pickle, object, saved.zip.get(), saved.prefix));
    LFARM_RETURN_IF_ERROR(add_tensor(name.text, std::move(tensor), tensors));
  }
  zip->count_inflated(*saved.zip);
  return {};
}

Status add_pickled_entry(ZipArchive* zip, const ZipEntry& entry, TensorMap* tensors) {
  LFARM_ASSIGN_OR_RETURN(SharedBytes bytes, zip->view(entry));
  return add_pickled_tensors(zip, std::move(bytes), cat(zip->label(), ": ", entry.name), tensors);
}

// One tensor saved on its own, as a subclass of torch.Tensor is.
Result<StoredTensor> pickled_tensor(ZipArchive* zip, SharedBytes bytes, std::string label) {
  LFARM_ASSIGN_OR_RETURN(TorchSave saved,
                         open_torch_save(*zip, std::move(bytes), std::move(label)));
  const PickleObject& root = saved.pickle[saved.pickle.root];
  if (root.kind != PickleKind::kTensor) {
    return invalid_input(cat(saved.zip->label(), ": it is no plain tensor"));
  }
  auto tensor = tensor_of(saved.pickle, root, saved.zip.get(), saved.prefix);
  zip->count_inflated(*saved.zip);
  return tensor;
}

// Weights or constants of the prefixed layout: a JSON list beside raw files (torch 2.9 and newer),
// or one pickled dict (torch 2.8).
Status add_folder(ZipArchive* zip, const std::string& folder, const std::string& model,
                  const std::string& what, TensorMap* tensors) {
  const ZipEntry* config = zip->find(cat(folder, model, "_", what, "_config.json"));
  if (config == nullptr) {
    const ZipEntry* pickled = zip->find(cat(folder, model, ".pt"));
    return pickled == nullptr ? Status() : add_pickled_entry(zip, *pickled, tensors);
  }
  LFARM_ASSIGN_OR_RETURN(std::string text, zip->read(*config, zip->limits_left().graph_bytes_max));
  LFARM_ASSIGN_OR_RETURN(std::vector<WeightEntry> weights, parse_weights_config(text));
  for (WeightEntry& weight : weights) {
    const ZipEntry* entry = zip->find(folder + weight.file_name);
    if (entry == nullptr) {
      return corrupt(cat(zip->label(), ": weight '", weight.name, "' should be in '", folder,
                         weight.file_name, "', which is missing"));
    }
    // A custom object has no tensor's sizes and dtype; the signature says if anyone needs it.
    if (weight.tensor.dtype == ScalarType::kUnknown) continue;
    LFARM_ASSIGN_OR_RETURN(SharedBytes bytes, zip->view(*entry));
    if (weight.pickled) {
      LFARM_ASSIGN_OR_RETURN(weight.tensor, pickled_tensor(zip, std::move(bytes),
                                                           cat(zip->label(), ": ", entry->name)));
    } else {
      weight.tensor.storage = bytes.bytes;
      weight.tensor.owner = std::move(bytes.owner);
    }
    LFARM_RETURN_IF_ERROR(add_tensor(std::move(weight.name), std::move(weight.tensor), tensors));
  }
  return {};
}

// The entry "<prefix>/models/<name>.json"; an archive may hold several models.
Result<const ZipEntry*> find_model(const ZipArchive& zip) {
  const ZipEntry* chosen = nullptr;
  for (const ZipEntry& entry : zip.entries()) {
    std::string_view name = entry.name;
    size_t slash = name.find('/');
    if (slash == std::string_view::npos || !name.ends_with(".json")) continue;
    std::string_view rest = name.substr(slash + 1);
    if (!rest.starts_with("models/") || rest.rfind('/') != 6) continue;
    if (chosen != nullptr) {
      return invalid_input(cat(zip.label(), ": it holds several models ('", chosen->name, "', '",
                               name, "'); save one model in each file"));
    }
    chosen = &entry;
  }
  if (chosen == nullptr) {
    return invalid_input(cat(zip.label(),
                             ": it holds no exported program; save the model with "
                             "torch.export.save"));
  }
  return chosen;
}

Result<ExportedProgram> read_prefixed(ZipArchive* zip) {
  LFARM_ASSIGN_OR_RETURN(const ZipEntry* model, find_model(*zip));
  std::string prefix = model->name.substr(0, model->name.find('/') + 1);
  size_t name_start = prefix.size() + std::string_view("models/").size();
  size_t suffix = std::string_view(".json").size();
  std::string name = model->name.substr(name_start, model->name.size() - name_start - suffix);
  LFARM_ASSIGN_OR_RETURN(std::string version, read_marker(zip, prefix + "archive_version"));
  if (version != kArchiveVersion) {
    return invalid_input(cat(zip->label(), ": archive version '", version, "' is not read, only '",
                             kArchiveVersion, "'; export the model with another torch version"));
  }
  LFARM_RETURN_IF_ERROR(check_byte_order(zip, prefix));
  LFARM_ASSIGN_OR_RETURN(std::string text, zip->read(*model, zip->limits_left().graph_bytes_max));
  LFARM_ASSIGN_OR_RETURN(ExportedProgram program, parse_program(text));
  LFARM_RETURN_IF_ERROR(
      add_folder(zip, prefix + "data/weights/", name, "weights", &program.tensors));
  LFARM_RETURN_IF_ERROR(
      add_folder(zip, prefix + "data/constants/", name, "constants", &program.tensors));
  return program;
}

Result<ExportedProgram> read_flat(ZipArchive* zip, const ZipEntry& model) {
  LFARM_RETURN_IF_ERROR(check_byte_order(zip, ""));
  LFARM_ASSIGN_OR_RETURN(std::string text, zip->read(model, zip->limits_left().graph_bytes_max));
  LFARM_ASSIGN_OR_RETURN(ExportedProgram program, parse_program(text));
  for (const char* name : {"serialized_state_dict.pt", "serialized_constants.pt"}) {
    const ZipEntry* entry = zip->find(name);
    if (entry == nullptr) return corrupt(cat(zip->label(), ": '", name, "' is missing"));
    // Older exports write nothing at all for an empty dict.
    if (entry->size == 0) continue;
    LFARM_RETURN_IF_ERROR(add_pickled_entry(zip, *entry, &program.tensors));
  }
  return program;
}

// Each tensor the signature names must be there with the dtype and sizes that the graph expects.
Status check_tensors(const ExportedProgram& program) {
  for (const InputSpec& spec : program.inputs) {
    bool stored = spec.kind == ExportInputKind::kParameter ||
                  spec.kind == ExportInputKind::kBuffer ||
                  spec.kind == ExportInputKind::kTensorConstant;
    auto* argument = std::get_if<TensorArgument>(&spec.argument);
    if (!stored || argument == nullptr) continue;
    auto found = program.tensors.find(spec.target);
    if (found == program.tensors.end()) {
      return corrupt(cat("weight '", spec.target, "' is missing from the archive"));
    }
    const StoredTensor& tensor = found->second;
    const TensorMeta& meta = program.graph.tensor_values.at(argument->name);
    bool same = tensor.dtype == meta.dtype && tensor.sizes.size() == meta.sizes.size();
    for (size_t i = 0; same && i < meta.sizes.size(); ++i) {
      same = meta.sizes[i].is_symbolic() || meta.sizes[i].value == tensor.sizes[i];
    }
    if (!same) {
      return corrupt(cat("weight '", spec.target, "' has another dtype or shape than its graph"));
    }
  }
  return {};
}

}  // namespace

Result<ExportedProgram> open_pt2(common::ByteView bytes, std::shared_ptr<const void> owner,
                                 const std::string& label, const Pt2Limits& limits) {
  LFARM_ASSIGN_OR_RETURN(std::shared_ptr<ZipArchive> zip,
                         one_line(ZipArchive::open({bytes, std::move(owner)}, label, limits)));
  const ZipEntry* flat = zip->find(kFlatProgram);
  auto program = one_line(flat != nullptr ? read_flat(zip.get(), *flat) : read_prefixed(zip.get()));
  if (program.ok()) {
    Status status = check_tensors(*program);
    if (status.ok()) return program;
    return one_line(common::Error{status.error().code, cat(label, ": ", status.error().message)});
  }
  const common::Error& error = program.error();
  if (error.message.starts_with(label)) return error;
  return common::Error{error.code, cat(label, ": ", error.message)};
}

Result<ExportedProgram> open_pt2(const std::string& path, const Pt2Limits& limits) {
  LFARM_ASSIGN_OR_RETURN(std::shared_ptr<const common::MappedFile> file,
                         common::MappedFile::open(path));
  LFARM_ASSIGN_OR_RETURN(ExportedProgram program, open_pt2(file->bytes(), file, path, limits));
  program.file = std::move(file);
  return program;
}

}  // namespace clients
