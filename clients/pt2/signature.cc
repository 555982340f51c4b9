#include "clients/pt2/signature.h"

#include <simdjson.h>

#include <cstdint>

#include "common/base/cat.h"

namespace clients {

using common::cat;
namespace dom = simdjson::dom;

namespace {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  return out + '"';
}

std::string text_of(int graph, bool complex, const std::string& gradient_of) {
  return cat("{\"graph\":", graph, ",\"complex\":", complex ? "true" : "false",
             gradient_of.empty() ? "" : cat(",\"gradient_of\":", json_text(gradient_of)), "}");
}

bool read_places(dom::element root, const char* name, std::vector<Signature::Place>* places) {
  dom::array items;
  if (root[name].get(items) != simdjson::SUCCESS) return false;
  for (dom::element item : items) {
    int64_t graph = 0;
    Signature::Place place;
    if (item["graph"].get(graph) != simdjson::SUCCESS || graph < -1 || graph > INT32_MAX ||
        item["complex"].get(place.complex) != simdjson::SUCCESS) {
      return false;
    }
    std::string_view gradient_of;
    if (item["gradient_of"].get(gradient_of) == simdjson::SUCCESS) place.gradient_of = gradient_of;
    place.graph = static_cast<int>(graph);
    places->push_back(place);
  }
  return true;
}

}  // namespace

std::string signature_text(const Model& model, const common::Digest& graph_hash) {
  std::string tensors, inputs, outputs;
  for (size_t i = 0; i < model.weight_names.size(); ++i) {
    tensors += cat(i == 0 ? "" : ",", json_text(model.weight_names[i]));
  }
  for (size_t i = 0; i < model.user_inputs.size(); ++i) {
    bool complex = model.user_input_is_complex[i];
    inputs += cat(i == 0 ? "" : ",", text_of(model.user_inputs[i], complex, ""));
  }
  for (size_t i = 0; i < model.user_outputs.size(); ++i) {
    const UserOutput& output = model.user_outputs[i];
    outputs +=
        cat(i == 0 ? "" : ",", text_of(output.graph_output, output.complex, output.gradient_of));
  }
  return cat("{\"graph_hash\":\"", graph_hash.hex(), "\",\n \"tensors\":[", tensors,
             "],\n \"inputs\":[", inputs, "],\n \"outputs\":[", outputs, "]}\n");
}

std::optional<Signature> parse_signature(std::string_view text) {
  dom::parser parser;
  dom::element root;
  std::string_view hash;
  dom::array tensors;
  // With room behind it, which the parser reads.
  if (parser.parse(simdjson::padded_string(text)).get(root) != simdjson::SUCCESS ||
      root["graph_hash"].get(hash) != simdjson::SUCCESS ||
      root["tensors"].get(tensors) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  Signature out;
  out.graph_hash = hash;
  for (dom::element tensor : tensors) {
    std::string_view name;
    if (tensor.get(name) != simdjson::SUCCESS) return std::nullopt;
    out.tensors.emplace_back(name);
  }
  if (!read_places(root, "inputs", &out.inputs) || !read_places(root, "outputs", &out.outputs)) {
    return std::nullopt;
  }
  return out;
}

}  // namespace clients
