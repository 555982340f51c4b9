// Stages that belong to the farm's own binaries: bytes in on standard input, bytes out on standard
// output.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace clients {

// arguments[0] is a program that lies beside this one. What it says on standard error when it fails
// is the error's message; its exit code gives the error's code.
common::Result<std::string> run_stage(std::vector<std::string> arguments, common::ByteView input);

// A file in memory with this content, to be read from its start; closed on exec unless handed to a
// child as a standard stream. The caller closes it.
common::Result<int> memory_file(common::ByteView content);

}  // namespace clients
