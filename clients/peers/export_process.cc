#include "clients/peers/export_process.h"

#include <nlohmann/json.hpp>

#include "clients/peers/line_process.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using Json = nlohmann::json;

constexpr int64_t kStartMs = 180'000;     // libraries of a gigabyte are loaded
constexpr int64_t kExportMs = 1'200'000;  // a large model is made and traced
constexpr double kArchiveBytesMax = 1e12;

std::string text_of(const Json& json, const char* word) {
  auto found = json.is_object() ? json.find(word) : json.end();
  if (!json.is_object() || found == json.end() || !found->is_string()) return "";
  return quoted(found->get<std::string>());
}

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += cat(text.empty() ? "" : " ", word);
  return text;
}

// What a package that is not there means to the user.
common::Error missing(const ExportRequest& request, const Json& said) {
  std::string python = cat("'", command_text(request.python), "'");
  std::string why = cat(" (", text_of(said, "missing"), ")");
  if (text_of(said, "package").starts_with("onnx")) {
    return common::invalid_input(cat(
        request.name, ": ", python, " has no converter of ONNX files", why,
        "; install onnx and onnx2torch there, or export the PyTorch model by torch.export.save"));
  }
  return common::invalid_input(
      cat(request.name, ": ", python, " cannot export models", why,
          "; --python 'CMD' names a Python that has torch, or export it by torch.export.save"));
}

common::Status send_request(const ExportRequest& request, LineProcess* process) {
  if (!request.arguments.empty()) {
    std::string head = cat("args ", request.arguments.size(), "\n", request.arguments);
    LFARM_RETURN_IF_ERROR(process->send(common::as_bytes(head)));
  }
  if (request.kind == "onnx") {
    std::string head = cat("onnx ", request.onnx.size(), "\n");
    LFARM_RETURN_IF_ERROR(process->send(common::as_bytes(head)));
    LFARM_RETURN_IF_ERROR(process->send(request.onnx));
  }
  return process->send(common::as_bytes(std::string("export\n")));
}

}  // namespace

Result<ExportedProgramFile> export_program(const ExportRequest& request, const std::string& path) {
  if (request.python.empty()) return common::invalid_input("--python names no command");
  std::vector<std::string> command = request.python;
  command.insert(command.end(), {"-c", request.script, request.kind, request.name});
  LFARM_ASSIGN_OR_RETURN(LineProcess process, LineProcess::start(request.name, command));
  process.allow(kStartMs);
  LFARM_ASSIGN_OR_RETURN(std::string first, process.line());
  Json said = Json::parse(first, nullptr, false);
  if (!text_of(said, "missing").empty()) return missing(request, said);
  if (!said.is_object() || !said.contains("ready")) return process.nonsense(first);

  process.allow(kExportMs);
  LFARM_RETURN_IF_ERROR(send_request(request, &process));
  LFARM_ASSIGN_OR_RETURN(std::string text, process.line());
  said = Json::parse(text, nullptr, false);
  if (std::string problem = text_of(said, "problem"); !problem.empty()) {
    return common::invalid_input(cat(request.name, ": ", problem));
  }
  if (std::string error = text_of(said, "error"); !error.empty()) {
    return common::unsupported(cat(request.name, " cannot be exported: ", error));
  }
  auto bytes = said.is_object() ? said.find("bytes") : said.end();
  if (!said.is_object() || bytes == said.end() || !bytes->is_number()) {
    return process.nonsense(text);
  }
  auto count = bytes->get<double>();
  if (!(count >= 1 && count <= kArchiveBytesMax)) return process.nonsense(text);
  LFARM_RETURN_IF_ERROR(process.save(static_cast<size_t>(count), path));
  return ExportedProgramFile{text_of(said, "name"), path};
}

}  // namespace clients
