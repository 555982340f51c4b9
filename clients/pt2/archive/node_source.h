// Where in a model's source a node of an exported program came from.
#pragma once

#include <string>
#include <string_view>

#include "clients/pt2/archive/exported_program.h"

namespace clients {

// The innermost frame of a trace, as Python prints it, whose path does not hold `unwanted`, else
// the outermost one.
std::string_view frame_outside(std::string_view trace, std::string_view unwanted);
// "model.py:92"; empty for what is no frame.
std::string place_of(std::string_view frame);

// Where a node came from, by the innermost frame outside of PyTorch: "modeling_llama.py:389". Empty
// when the archive doesn't say.
std::string source_place(const ExportNode& node);
// The class of the module that a node's outermost module is, without its package:
// "LlamaForCausalLM". Empty when the archive doesn't say, or says what is no name.
std::string root_class(const ExportNode& node);

}  // namespace clients
