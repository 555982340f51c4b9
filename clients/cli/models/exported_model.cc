#include "clients/cli/models/exported_model.h"

#include <memory>
#include <utility>

#include "clients/cli/access/plan_source.h"
#include "clients/peers/export_process.h"
#include "clients/peers/line_process.h"
#include "clients/peers/script.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::Result;

namespace {

// "package.module", as Python spells names.
bool is_dotted_name(std::string_view text) {
  bool begins = true;
  for (char c : text) {
    bool is_digit = c >= '0' && c <= '9';
    bool is_letter = c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == '.' ? begins : !(is_letter || (is_digit && !begins))) return false;
    begins = c == '.';
  }
  return !begins;
}

}  // namespace

ModelKind kind_of_model(const std::string& what) {
  if (what.ends_with(".onnx")) return ModelKind::kOnnx;
  size_t colon = what.find(':');
  if (colon == std::string::npos || common::file_exists(what)) return ModelKind::kProgram;
  std::string_view text = what;
  bool is_callable =
      is_dotted_name(text.substr(0, colon)) && is_dotted_name(text.substr(colon + 1));
  return is_callable ? ModelKind::kCallable : ModelKind::kProgram;
}

Result<ModelFile> model_file_of(const std::string& what, const ExportOptions& options) {
  ModelFile file{what, model_name(what), std::nullopt, false};
  ModelKind kind = kind_of_model(what);
  if (kind == ModelKind::kProgram) {
    bool is_given = !options.arguments.empty() || !options.save.empty();
    if (!is_given) return file;
    return common::invalid_input(
        cat("--args and --save are for ONNX files and package.module:callable, and ", what,
            " is neither"));
  }
  ExportRequest request{
      command_words(options.python), kExportScript, "module", what, options.arguments, {}};
  std::shared_ptr<const common::MappedFile> onnx;
  if (kind == ModelKind::kOnnx) {
    LFARM_ASSIGN_OR_RETURN(onnx, common::MappedFile::open(what));
    request.kind = "onnx";
    request.onnx = onnx->bytes();
  }
  file.path = options.save;
  if (options.save.empty()) {
    auto folder = common::ScratchDirectory::create("lfarm-export");
    if (!folder.ok()) return folder.error();
    file.folder.emplace(std::move(folder).value());
    file.path = file.folder->path() + "/model.pt2";
  }
  LFARM_ASSIGN_OR_RETURN(ExportedProgramFile exported, export_program(request, file.path));
  file.is_exported_here = true;
  if (kind == ModelKind::kCallable) {
    file.name = exported.name.empty() ? what.substr(what.rfind(':') + 1) : exported.name;
  }
  return file;
}

void add_export_options(Command* command, ExportOptions* options) {
  command->heading("Export");
  command
      ->value("--python", &options->python, "CMD",
              "The command of a Python that has torch, such as 'chroot /srv/sid python3'")
      .from_environment("LFARM_PYTHON")
      .shows_default();
  command->value(
      "--args", &options->arguments, "INPUTS",
      "Example inputs as they stand in a call in Python, for .onnx files and callables:\n"
      "'torch.randn(1, 3, 224, 224)'");
  command->value("--save", &options->save, "FILE.pt2", "Keep the exported model");
}

}  // namespace clients
