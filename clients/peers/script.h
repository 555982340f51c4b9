// The texts of peer.py and export.py, which go to a Python with its command line.
#pragma once

namespace clients {

extern const char* const kPeerScript;
extern const char* const kExportScript;

}  // namespace clients
