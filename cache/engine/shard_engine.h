// Where the truth about a shard lies: records that only the shard's holder changes. Every change
// carries the holder's fence and a sequence number, and the engine compares both in the same step
// in which it writes.
//
//   raise({17, 4})            taken, sequence 812: writes of an earlier holder are stale
//   write({17, 4}, 813, ...)  taken, all changes or none
//   write({17, 4}, 813, ...)  taken, nothing written: the answer to the first was lost
//   write({17, 3}, 813, ...)  stale
//   write({17, 4}, 815, ...)  behind: the engine has lost 814
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/shard/fence.h"

namespace cache {

// What the records of a shard are of.
enum class ShardRecord : uint8_t { kPlan, kJob, kRecipe };
inline constexpr size_t kShardRecordCount = 3;
// "plan", "job", "recipe".
const char* record_name(ShardRecord record);

struct ShardChange {
  ShardRecord record = ShardRecord::kPlan;
  common::Digest name;
  std::optional<std::string_view> bytes;  // the caller's; empty: the record is removed
};

enum class FenceVerdict : uint8_t {
  kTaken,
  kStale,   // another holder has the shard: whoever sent this holds it no more
  kBehind,  // the engine lacks writes that it acknowledged: it was restored from an older copy
};
// "taken", "stale", "behind".
const char* verdict_name(FenceVerdict verdict);

struct FenceAnswer {
  FenceVerdict verdict = FenceVerdict::kTaken;
  common::Fence there;    // the shard's fence in the engine, after the call
  uint64_t sequence = 0;  // of the last change there
};

// Some of a shard's names, in no order.
struct NamePage {
  std::vector<common::Digest> names;
  std::string next;  // where the next page begins; empty: this is the last one
};

// What an engine stores as a shard's fence: its text form and the sequence number.
struct FenceState {
  common::Fence fence;
  uint64_t sequence = 0;
};

// Thread-safe. Calls may wait for a network: after kUnavailable and kTimedOut a write may or may
// not have happened, and the same call may be repeated.
class ShardEngine {
 public:
  virtual ~ShardEngine() = default;

  // Makes this the shard's fence, in the place of earlier ones. kStale where there is a later one,
  // or one of another holder with the same number of transitions. A fence whose raise was not
  // answered is not used: the raise may land later, when the engine has been set back meanwhile.
  virtual common::Result<FenceAnswer> raise(const common::Fence& fence) = 0;
  // The change that follows number `sequence` - 1 of the shard. All of it is there or nothing; on
  // kTaken it is as durable as the engine makes it.
  virtual common::Result<FenceAnswer> write(const common::Fence& fence, uint64_t sequence,
                                            std::span<const ShardChange> changes) = 0;
  // What fence the shard has and how many changes, so that a holder without anything to write
  // learns that an engine has lost some.
  virtual common::Result<FenceState> look(uint32_t shard) = 0;
  // Empty when there is none.
  virtual common::Result<std::optional<std::string>> read(uint32_t shard, ShardRecord record,
                                                          const common::Digest& name) = 0;
  // The same of many, in the order of their names and in one exchange.
  virtual common::Result<std::vector<std::optional<std::string>>> read_all(
      uint32_t shard, ShardRecord record, std::span<const common::Digest> names) = 0;
  // How many records of the kind there are.
  virtual common::Result<uint64_t> count(uint32_t shard, ShardRecord record) = 0;
  // About kNamesAtOnce names of records of the kind, from the beginning where `from` is empty, else
  // from a page's `next`. Pages may be empty before the last one. What is there from the first page
  // to the last is in one of them or in several: NameWalk gives each name once.
  virtual common::Result<NamePage> names(uint32_t shard, ShardRecord record,
                                         const std::string& from) = 0;

  static constexpr size_t kChangesMax = 256;  // of one write
  // A server sends records' bytes through its script with their names: some hundred kilobytes for a
  // signed plan of a large model.
  static constexpr size_t kNamesAtOnce = 128;
};

// What the engine whose state this is says to a write. A write that is taken and has the state's
// own number is a repetition, of which nothing is written.
FenceVerdict judge_write(const FenceState& there, const common::Fence& fence, uint64_t sequence);
// The same of raise().
FenceVerdict judge_raise(const FenceState& there, const common::Fence& fence);
std::string text_of(const FenceState& state);
std::optional<FenceState> parse_fence_state(uint32_t shard, std::string_view text);

}  // namespace cache
