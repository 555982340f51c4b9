// The text of peer.py, which goes to a peer's Python with its command line.
#pragma once

namespace bench {

extern const char* const kPeerScript;

}  // namespace bench
