// Models that are no exported program yet: an ONNX file, or a Python module's callable, which a
// Python that has torch exports.
#pragma once

#include <optional>
#include <string>

#include "clients/cli/base/command_line.h"
#include "common/base/files.h"
#include "common/base/result.h"

namespace clients {

struct ExportOptions {
  std::string python = "python3";
  std::string arguments;  // example inputs as they stand in a call in Python; may be empty
  std::string save;       // where to keep what was exported; empty: nowhere
};

// A file of torch.export.save, and what people call the model.
struct ModelFile {
  std::string path;
  std::string name;
  std::optional<common::ScratchDirectory> folder;  // of a file that goes with this
  bool is_exported_here = false;
};

enum class ModelKind { kProgram, kOnnx, kCallable };
// kOnnx: it ends in ".onnx". kCallable: "package.module:callable", and no file has this name.
ModelKind kind_of_model(const std::string& what);

// kProgram: the file itself. Others are exported as export_process.h says.
common::Result<ModelFile> model_file_of(const std::string& what, const ExportOptions& options);

// --python, --args, --save.
void add_export_options(Command* command, ExportOptions* options);

}  // namespace clients
