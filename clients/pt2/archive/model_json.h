// Reads the JSON documents of a torch.export archive: the program and the lists of its weights.
#pragma once

#include <string>
#include <vector>

#include "clients/pt2/archive/exported_program.h"

namespace clients {

// The major version of torch's export schema that is read (torch 2.6 and newer).
inline constexpr int64_t kSchemaMajor = 8;

// Everything of the program but its tensors; validated by check_program. Unknown keys are
// ignored. kInvalidInput or kCorrupt names the place in the document.
common::Result<ExportedProgram> parse_program(const std::string& json);

// One entry of model_weights_config.json or model_constants_config.json.
struct WeightEntry {
  std::string name;       // in the module
  std::string file_name;  // in the archive's folder of weights or constants
  bool pickled = false;
  StoredTensor tensor;  // without its storage
};
common::Result<std::vector<WeightEntry>> parse_weights_config(const std::string& json);

}  // namespace clients
