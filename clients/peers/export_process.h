// A Python that exports models for lfarm: the other end of export.py, whose first lines describe
// what is said.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace clients {

struct ExportRequest {
  std::vector<std::string> python;  // "chroot", "/srv/sid", "python3"
  std::string script;               // given to it with -c, so that it need not see our files
  std::string kind;                 // "module" or "onnx"
  std::string name;                 // "package.module:callable"; of the ONNX file
  std::string arguments;            // example inputs as they stand in a call; may be empty
  common::ByteView onnx;
};

struct ExportedProgramFile {
  std::string name;  // of the module's class or the graph; may be empty
  std::string path;  // `path` of export_program()
};

// Writes what torch.export.save gives to `path`. kInvalidInput where Python, a package or the
// callable is not there, or example inputs are missing, saying what to do; kUnsupported where torch
// or the converter refuses the model; kTimedOut after twenty minutes.
common::Result<ExportedProgramFile> export_program(const ExportRequest& request,
                                                   const std::string& path);

}  // namespace clients
