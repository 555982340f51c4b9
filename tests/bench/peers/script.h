// The texts of peer.py and llm.py, which go to a peer's Python with its command line.
#pragma once

namespace bench {

extern const char* const kPeerScript;
extern const char* const kLlmScript;

}  // namespace bench
