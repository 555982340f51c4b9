// The first lines of a C kernel's function: its signature, the symbols and the typed pointers.
#pragma once

#include <string>
#include <string_view>

#include "common/lowering/body/function_body.h"

namespace worker {

// "QUALIFIERS void NAME(void* const* restrict buffers, ...) {" and the names that `function` uses:
// s0, s1, ..., in0, ..., out0, ... With `in_place`, an output may be the memory of an input, so
// pointers promise nothing.
std::string c_function_head(std::string_view qualifiers, std::string_view name,
                            const common::Graph& body, const common::FunctionBody& function,
                            bool in_place);

}  // namespace worker
