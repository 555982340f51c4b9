// Another runtime of models in a process of its own, which measures itself when it is told to: the
// other end of peer.py, whose first lines describe what is said.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "clients/peers/line_process.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace clients {

// Milliseconds that the peer may take for an answer.
struct PeerDeadlines {
  int64_t start_ms = 180'000;   // libraries of a gigabyte are loaded
  int64_t load_ms = 1'200'000;  // a model is compiled
  int64_t run_ms = 300'000;
};

struct PeerOptions {
  std::vector<std::string> python;  // "chroot", "/srv/sid", "python3"
  std::string script;               // given to it with -c, so that it need not see our files
  std::string backend;              // "eager", "inductor", "onnxruntime"
  int threads = 1;
  PeerDeadlines deadlines;
};

// What a peer says it is set up with; what it does not say stays empty.
struct PeerFacts {
  std::string torch, onnxruntime;  // versions
  std::string blas, blas_path;     // "OpenBLAS", "MKL", "reference", "unknown"
  std::string capability;          // of the processor, as PyTorch uses it: "AVX512"
};

// Of PyTorch's square product of 2048: 1e9 operations a second.
struct PeerRates {
  double gemm_gflops = 0, bf16_gemm_gflops = 0;
};

struct PeerArray {
  std::string dtype;  // as PyTorch names it: "bfloat16"
  common::Bytes npy;  // a whole .npy file; bfloat16 as its bits in uint16
};

struct PeerModel {
  std::string settings;            // which of several ways was fastest; may be empty
  std::vector<PeerArray> outputs;  // of the first call
};

// Not thread-safe. After an error the peer is of no further use; it is killed when it goes.
class PeerProcess {
 public:
  // kUnsupported when a package that the backend needs is missing there; kUnavailable when it ends
  // or answers nonsense, and kTimedOut when it doesn't answer: of this and of all that follows.
  static common::Result<PeerProcess> start(const PeerOptions& options);
  const PeerFacts& facts() const { return facts_; }
  // Sends the archive, has it loaded and compiled, and called once.
  common::Result<PeerModel> load(common::ByteView archive, const std::vector<PeerArray>& inputs);
  // Calls the model once more, and then `calls` times: microseconds of each of these.
  common::Result<std::vector<double>> run(int calls);
  common::Result<PeerRates> rates();
  pid_t pid() const { return process_.pid(); }

 private:
  PeerProcess(PeerOptions options, LineProcess process)
      : options_(std::move(options)), process_(std::move(process)) {}
  // One command, one line.
  common::Result<std::string> ask(const std::string& command);

  PeerOptions options_;
  LineProcess process_;
  PeerFacts facts_;
};

}  // namespace clients
