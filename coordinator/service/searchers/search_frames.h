// What a coordinator and its searchers say to one another: the frames of their connections
// (common/wire/frames), and the values in them.
//
// A searcher connects and says kHello; the coordinator answers kWelcome, or kRefused unless both
// are of one build: another one's search may propose other candidates. From then on the searcher
// says kBeat every second. A search begins with kOpen, answered with kOpened or kFailed, goes on
// with kAdvance, answered with kStepped or kFailed, and ends with kClose. While either is being
// answered, the searcher may ask what the store knows: kLookup, answered with kAnswers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/store/store.h"
#include "common/base/result.h"
#include "coordinator/service/journal/search_steps.h"

namespace coordinator::service {

enum class FrameKind : uint8_t {
  kHello,
  kWelcome,
  kRefused,
  kBeat,
  kOpen,
  kOpened,
  kAdvance,
  kStepped,
  kLookup,
  kAnswers,
  kFailed,
  kClose
};

inline constexpr int64_t kSearcherBeatMs = 1'000;

struct SearchFrame {
  FrameKind kind{};
  uint64_t search = 0;    // the coordinator's number of it; 0 in frames about the searcher
  std::string_view body;  // of the kind's value, below
};

// A frame with the value that its kind has; kWelcome and kClose have none.
std::string search_frame(FrameKind kind, uint64_t search, std::string body = {});
// kCorrupt unless the bytes begin as a frame does.
common::Result<SearchFrame> parse_frame(std::string_view bytes);

struct SearcherHello {
  std::string build;      // common::build_name() and the compiler epoch
  std::string name;       // for people
  uint32_t searches = 0;  // that it takes at a time
};
// Of this process.
std::string searcher_build();

// kBeat.
struct SearcherBeat {
  uint64_t cpu_us = 0;  // that the process has used
};

// kOpen: the job's journal, from which a search begins as after a coordinator's restart.
struct OpenSearch {
  uint64_t job = 0;
  std::vector<std::pair<uint64_t, std::string>> records;  // by sequence
};

// kOpened.
struct SearchOpened {
  std::vector<StageTime> preparation;
  SearchStatus status;
};

// kAdvance: a StepRequest, with results as they are journalled.
struct AdvanceSearch {
  std::vector<std::pair<uint64_t, std::string>> results;  // by candidate: result_record()
  bool finish_now = false;
  uint32_t candidates = 0;
};

// Of kLookup.
using SearchQuestion = MeasurementQuestion;

// Of kAnswers, to each question in order.
struct SearchAnswer {
  std::optional<int64_t> ns;
  std::optional<std::string> record;  // encode_tuning_record()
};

// kFailed and kRefused.
struct SearchFailure {
  common::Code code{};
  std::string message;
};

// Decoding gives kCorrupt when bytes are missing, left over or senseless.
std::string encode(const SearcherHello& hello);
std::string encode(const SearcherBeat& beat);
std::string encode(const OpenSearch& open);
std::string encode(const SearchOpened& opened);
std::string encode(const AdvanceSearch& advance);
std::string encode(const std::vector<SearchQuestion>& questions);
std::string encode(const std::vector<SearchAnswer>& answers);
std::string encode(const SearchFailure& failure);
template <class Value>
common::Result<Value> decode(std::string_view body);  // of any of these

// kStepped. Candidates' graphs are written once for each `known`, the digests that the other side
// has; decoding checks and adds them.
using KnownGraphs = std::map<common::Digest, common::SharedBytes>;
std::string encode_step(const StepResult& step, KnownGraphs& known);
common::Result<StepResult> decode_step(std::string_view body, KnownGraphs& known);

}  // namespace coordinator::service
