// Opens a .pt2 archive of torch.export, in the layout of torch 2.6 or of later versions.
#pragma once

#include <string>

#include "clients/pt2/archive/exported_program.h"
#include "clients/pt2/archive/limits.h"

namespace clients {

// Maps the file and reads the program and the list of its tensors; the tensors' bytes are views of
// the mapping, which they keep alive, and are not read. Every tensor that the signature names is
// present and lies inside its storage. kInvalidInput when the file is missing or is refused,
// kCorrupt when it is damaged.
common::Result<ExportedProgram> open_pt2(const std::string& path, const Pt2Limits& limits = {});

// The same for an archive that is already in memory; `label` names it in messages.
common::Result<ExportedProgram> open_pt2(common::ByteView bytes, std::shared_ptr<const void> owner,
                                         const std::string& label, const Pt2Limits& limits = {});

}  // namespace clients
