// The text of llm.py, which goes to a peer's Python with its command line.
#pragma once

namespace bench {

extern const char* const kLlmScript;

}  // namespace bench
