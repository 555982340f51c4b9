#include "clients/peers/peer_process.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using common::Status;
using Json = nlohmann::json;

constexpr size_t kOutputBytesMax = size_t{1} << 30;

std::string text_of(const Json& json, const char* word) {
  auto found = json.find(word);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}
double number_of(const Json& json, const char* word) {
  auto found = json.find(word);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

PeerFacts facts_of(const Json& json) {
  PeerFacts facts;
  facts.torch = text_of(json, "torch");
  facts.onnxruntime = text_of(json, "onnxruntime");
  facts.capability = text_of(json, "capability");
  if (auto blas = json.find("blas"); blas != json.end() && blas->is_object()) {
    facts.blas = text_of(*blas, "name");
    facts.blas_path = text_of(*blas, "path");
  }
  return facts;
}

// What went wrong there, when that is the answer.
std::optional<std::string> error_of(const Json& said) {
  std::string error = said.is_object() ? text_of(said, "error") : "";
  if (error.empty()) return std::nullopt;
  return quoted(error);
}

}  // namespace

Result<PeerProcess> PeerProcess::start(const PeerOptions& options) {
  std::vector<std::string> command = options.python;
  command.insert(command.end(),
                 {"-c", options.script, options.backend, std::to_string(options.threads)});
  LFARM_ASSIGN_OR_RETURN(LineProcess process, LineProcess::start(options.backend, command));
  PeerProcess peer(options, std::move(process));
  peer.process_.allow(options.deadlines.start_ms);
  LFARM_ASSIGN_OR_RETURN(std::string first, peer.process_.line());
  Json said = Json::parse(first, nullptr, false);
  if (!said.is_object()) return peer.process_.nonsense(first);
  if (std::string missing = text_of(said, "missing"); !missing.empty()) {
    return common::unsupported(cat(options.backend, ": ", quoted(missing)));
  }
  if (!said.contains("ready")) return peer.process_.nonsense(first);
  peer.facts_ = facts_of(said);
  return peer;
}

Result<PeerModel> PeerProcess::load(common::ByteView archive,
                                    const std::vector<PeerArray>& inputs) {
  process_.allow(options_.deadlines.load_ms);
  for (const PeerArray& input : inputs) {
    std::string head = cat("input ", input.dtype, " ", input.npy.size(), "\n");
    LFARM_RETURN_IF_ERROR(process_.send(common::as_bytes(head)));
    LFARM_RETURN_IF_ERROR(process_.send(input.npy));
  }
  std::string head = cat("model ", archive.size(), "\n");
  LFARM_RETURN_IF_ERROR(process_.send(common::as_bytes(head)));
  LFARM_RETURN_IF_ERROR(process_.send(archive));
  LFARM_ASSIGN_OR_RETURN(std::string text, process_.line());
  Json said = Json::parse(text, nullptr, false);
  if (auto error = error_of(said)) return common::unsupported(cat(options_.backend, ": ", *error));
  if (!said.is_object() || !said.contains("outputs") || !said["outputs"].is_array()) {
    return process_.nonsense(text);
  }
  PeerModel model;
  model.settings = quoted(text_of(said, "settings"));
  for (const Json& one : said["outputs"]) {
    double count = one.is_object() ? number_of(one, "bytes") : 0;
    if (!(count >= 1 && count <= static_cast<double>(kOutputBytesMax)))
      return process_.nonsense(text);
    LFARM_ASSIGN_OR_RETURN(common::Bytes npy, process_.bytes(static_cast<size_t>(count)));
    model.outputs.push_back({text_of(one, "dtype"), std::move(npy)});
  }
  return model;
}

Result<std::string> PeerProcess::ask(const std::string& command) {
  process_.allow(options_.deadlines.run_ms);
  LFARM_RETURN_IF_ERROR(process_.send(common::as_bytes(command + "\n")));
  return process_.line();
}

Result<PeerRates> PeerProcess::rates() {
  LFARM_ASSIGN_OR_RETURN(std::string text, ask("rates"));
  Json said = Json::parse(text, nullptr, false);
  if (!said.is_object()) return process_.nonsense(text);
  PeerRates rates{number_of(said, "gemm_gflops"), number_of(said, "bf16_gemm_gflops")};
  if (!(rates.gemm_gflops > 0 && rates.bf16_gemm_gflops > 0)) return process_.nonsense(text);
  return rates;
}

Result<std::vector<double>> PeerProcess::run(int calls) {
  LFARM_ASSIGN_OR_RETURN(std::string text, ask(cat("run ", calls)));
  Json said = Json::parse(text, nullptr, false);
  if (auto error = error_of(said)) return common::unsupported(cat(options_.backend, ": ", *error));
  std::vector<double> all;
  if (said.is_object() && said.contains("us") && said["us"].is_array()) {
    for (const Json& one : said["us"]) all.push_back(one.is_number() ? one.get<double>() : -1);
  }
  bool fits = all.size() == static_cast<size_t>(calls) &&
              std::all_of(all.begin(), all.end(), [](double us) { return us > 0; });
  if (!fits) return process_.nonsense(text);
  return all;
}

}  // namespace clients
