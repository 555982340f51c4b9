#include "common/cuda/sass.h"

#include <algorithm>
#include <array>
#include <map>

#include "common/cuda/cubin_sections.h"

namespace common {
namespace {

constexpr size_t kInstructionBytes = 16;
constexpr unsigned kOpcodeMask = 0x1ff;
constexpr uint16_t kBranch = 0x147, kNop = 0x118, kExit = 0x14d, kReturn = 0x150;
constexpr uint16_t kWarpgroupProduct = 0x1f0, kWarpgroup = 0x1c5;  // HGMMA, WARPGROUP
constexpr uint16_t kWaitForCopies = 0x11a, kEndCopies = 0x1af;     // DEPBAR, LDGDEPBAR
constexpr uint16_t kLoadMatrices = 0x03b, kStoreMatrices = 0x044;  // LDSM, STSM
constexpr uint64_t kAlways = 7, kNever = 15;                       // as guards
constexpr int kNoScoreboard = 7;
constexpr std::string_view kTextPrefix = ".text.";

struct Opcodes {
  SassClass kind;
  std::vector<uint16_t> codes;
};

// What is not listed is arithmetic.
const std::array<SassClass, kOpcodeMask + 1>& classes() {
  static const std::array<SassClass, kOpcodeMask + 1> kClasses = [] {
    const Opcodes rows[] = {
        // FFMA FADD FMUL FSETP FMNMX FSEL FCHK HADD2 HFMA2 HMUL2 HSETP2 HMNMX2
        {SassClass::kFloat,
         {0x023, 0x021, 0x020, 0x00b, 0x009, 0x008, 0x102, 0x030, 0x031, 0x032, 0x034, 0x040}},
        // DADD DMUL DFMA DSETP
        {SassClass::kDouble, {0x029, 0x028, 0x02b, 0x02a}},
        // MUFU F2F F2I I2F FRND POPC FLO
        {SassClass::kFunction, {0x108, 0x104, 0x105, 0x106, 0x107, 0x109, 0x100}},
        // HMMA IMMA DMMA HGMMA
        {SassClass::kTensor, {0x03c, 0x037, 0x03f, 0x1f0}},
        {SassClass::kGlobalLoad, {0x181, 0x180}},   // LDG LD
        {SassClass::kGlobalStore, {0x186, 0x185}},  // STG ST
        {SassClass::kAtomic, {0x1a8, 0x18a, 0x18e, 0x18b, 0x18c, 0x1a9}},
        {SassClass::kAsyncCopy, {0x1ae}},            // LDGSTS
        {SassClass::kBoxCopy, {0x1b4}},              // UTMALDG
        {SassClass::kSharedLoad, {0x184, 0x03b}},    // LDS LDSM
        {SassClass::kSharedStore, {0x188, 0x044}},   // STS STSM
        {SassClass::kLocalLoad, {0x183}},            // LDL
        {SassClass::kLocalStore, {0x187}},           // STL
        {SassClass::kConstantLoad, {0x182, 0x1b9}},  // LDC ULDC
        {SassClass::kShuffle, {0x189}},              // SHFL
        {SassClass::kBarrier, {0x11d}},              // BAR
        // BRA BRX JMP BSSY BSYNC BREAK EXIT RET WARPSYNC
        {SassClass::kBranch, {0x147, 0x149, 0x14a, 0x145, 0x141, 0x142, 0x14d, 0x150, 0x148}},
        {SassClass::kCall, {0x143, 0x144}},
        // UIADD3 UMOV USHF ULOP3 UISETP UIMAD UIMAD.WIDE ULEA USEL R2UR VOTEU
        {SassClass::kUniform,
         {0x090, 0x082, 0x099, 0x092, 0x08c, 0x0a4, 0x0a5, 0x091, 0x087, 0x1c2, 0x086}},
        // NOP MEMBAR DEPBAR LDGDEPBAR WARPGROUP NANOSLEEP ERRBAR CCTL SYNCS
        {SassClass::kOther, {kNop, 0x192, 0x11a, 0x1af, 0x1c5, 0x15d, 0x1ab, 0x18f, 0x1a7, 0x1b2}},
    };
    std::array<SassClass, kOpcodeMask + 1> classes{};
    classes.fill(SassClass::kArithmetic);
    for (const Opcodes& row : rows) {
      for (uint16_t code : row.codes) classes[code] = row.kind;
    }
    return classes;
  }();
  return kClasses;
}

bool has_width(SassClass kind) {
  switch (kind) {
    case SassClass::kGlobalLoad:
    case SassClass::kGlobalStore:
    case SassClass::kAsyncCopy:
    case SassClass::kSharedLoad:
    case SassClass::kSharedStore:
    case SassClass::kLocalLoad:
    case SassClass::kLocalStore:
      return true;
    default:
      return false;
  }
}

uint64_t field(uint64_t word, int first, int bits) {
  return (word >> first) & ((uint64_t{1} << bits) - 1);
}

// What differs between architectures. Branches have their distance from the next instruction, in
// words of four bytes, from bit 34 on, and since sm_90 the lowest 8 bits of it apart. Copies to
// shared memory have their width a bit higher since sm_100.
struct CodeForm {
  bool has_low_bits = false;
  int copy_width = 9;  // its first bit in the upper half
};

int64_t branch_target(uint64_t low, uint64_t high, int64_t address, CodeForm form) {
  uint64_t upper = field(low, 34, 30) | field(high, 0, 18) << 30;
  int64_t words = static_cast<int64_t>(upper << 16) >> 16;  // the sign is bit 47
  if (form.has_low_bits) words = words * 256 + static_cast<int64_t>(field(low, 16, 8));
  return address + static_cast<int64_t>(kInstructionBytes) + words * 4;
}

SassInstruction decode(uint64_t low, uint64_t high, size_t number, size_t count, CodeForm form) {
  // Unsigned and signed bytes and halves, then words, pairs and fours of them.
  constexpr uint8_t kWidths[] = {1, 1, 2, 2, 4, 8, 16, 16};
  SassInstruction x;
  x.opcode = static_cast<uint16_t>(low & kOpcodeMask);
  x.kind = classes()[x.opcode];
  // Matrices of 8x8 halves come by one, two or four.
  bool is_matrices = x.opcode == kLoadMatrices || x.opcode == kStoreMatrices;
  if (is_matrices) {
    x.bytes = static_cast<uint8_t>(4 << field(high, 8, 2));
  } else if (has_width(x.kind)) {
    x.bytes = kWidths[field(high, x.kind == SassClass::kAsyncCopy ? form.copy_width : 9, 3)];
  }
  x.stall = static_cast<uint8_t>(field(high, 41, 4));
  auto scoreboard = static_cast<int>(field(high, 46, 3));
  if (scoreboard != kNoScoreboard) x.scoreboard = static_cast<int8_t>(scoreboard);
  x.waits = static_cast<uint8_t>(field(high, 52, 6));
  if (field(low, 12, 4) == kNever) {  // as there are between asynchronous copies
    x.kind = SassClass::kOther;
    x.bytes = 0;
  }
  // The guard, and whether a branch asks a predicate of the whole warp.
  x.is_conditional =
      field(low, 12, 4) != kAlways || (x.opcode == kBranch && field(high, 27, 1) != 0);
  x.ends_copies = x.opcode == kEndCopies;
  x.ends_products = x.opcode == kWarpgroupProduct && field(high, 20, 3) == 0;
  if (x.opcode == kWarpgroup && field(low, 47, 1) != 0) {
    x.products_left = static_cast<int8_t>(field(high, 8, 6));
  }
  if (x.opcode == kWaitForCopies) x.copies_left = static_cast<int8_t>(field(low, 38, 6));
  if (x.opcode == kBranch) {
    int64_t target =
        branch_target(low, high, static_cast<int64_t>(number * kInstructionBytes), form);
    bool fits = target >= 0 && target < static_cast<int64_t>(count * kInstructionBytes) &&
                target % static_cast<int64_t>(kInstructionBytes) == 0;
    if (fits) x.target = target / static_cast<int64_t>(kInstructionBytes);
  }
  return x;
}

std::vector<SassInstruction> decode(ByteView text, CodeForm form) {
  size_t count = text.size() / kInstructionBytes;
  std::vector<SassInstruction> code;
  code.reserve(count);
  for (size_t k = 0; k < count; ++k) {
    uint64_t low = load_bytes<uint64_t>(text, k * kInstructionBytes).value_or(0);
    uint64_t high = load_bytes<uint64_t>(text, k * kInstructionBytes + 8).value_or(0);
    code.push_back(decode(low, high, k, count, form));
  }
  // What is left after the last branch to itself is padding.
  while (!code.empty() && code.back().opcode == kNop) code.pop_back();
  return code;
}

std::vector<SassLoop> find_loops(const std::vector<SassInstruction>& code) {
  std::map<size_t, size_t> last;  // by first; a loop may be continued from several places
  for (size_t k = 0; k < code.size(); ++k) {
    if (code[k].target < 0 || static_cast<size_t>(code[k].target) >= k) continue;
    auto first = static_cast<size_t>(code[k].target);
    last[first] = std::max(last[first], k);
  }
  std::vector<SassLoop> loops;
  loops.reserve(last.size());
  for (const auto& [first, end] : last) loops.push_back({first, end});
  return loops;
}

// What a thread has asked device memory for at one place.
struct Pending {
  std::array<SassInFlight, kNoScoreboard> loads{};
  std::vector<SassInFlight> groups;  // of asynchronous copies, the oldest first
  SassInFlight open;                 // copies of no group yet

  SassInFlight total() const {
    SassInFlight sum = open;
    for (const SassInFlight& one : loads) sum += one;
    for (const SassInFlight& one : groups) sum += one;
    return sum;
  }
  SassInFlight copies() const {
    SassInFlight sum = open;
    for (const SassInFlight& one : groups) sum += one;
    return sum;
  }
  void step(const SassInstruction& x) {
    for (size_t board = 0; board < loads.size(); ++board) {
      if ((x.waits >> board & 1) != 0) loads[board] = {};
    }
    if (x.copies_left >= 0 && groups.size() > static_cast<size_t>(x.copies_left)) {
      groups.erase(groups.begin(), groups.end() - x.copies_left);
    }
    if (x.kind == SassClass::kGlobalLoad && x.scoreboard >= 0) {
      loads[static_cast<size_t>(x.scoreboard)] += {x.bytes, 1};
    }
    if (x.kind == SassClass::kAsyncCopy) open += {x.bytes, 1};
    if (x.ends_copies) {
      groups.push_back(open);
      open = {};
    }
  }
  void merge(const Pending& other) {
    for (size_t board = 0; board < loads.size(); ++board) {
      if (other.loads[board].bytes > loads[board].bytes) loads[board] = other.loads[board];
    }
    if (other.copies().bytes <= copies().bytes) return;
    groups = other.groups;
    open = other.open;
  }
};

// Walks the code along its branches and tells `visit` each instruction that is reached, with what
// is under way after it. Twice, so that loops are entered with what their steps leave.
template <class Visit>
void flow(const std::vector<SassInstruction>& code, const Visit& visit) {
  std::map<size_t, Pending> arrivals;  // by where branches lead
  auto arrive = [&](size_t where, const Pending& pending) {
    auto [known, is_new] = arrivals.try_emplace(where, pending);
    if (!is_new) known->second.merge(pending);
  };
  for (int round = 0; round < 2; ++round) {
    arrive(0, {});
    bool falls = false;
    Pending pending;
    for (size_t k = 0; k < code.size(); ++k) {
      if (auto arrival = arrivals.find(k); arrival != arrivals.end()) {
        falls ? pending.merge(arrival->second) : void(pending = arrival->second);
        falls = true;
      }
      if (!falls) continue;
      pending.step(code[k]);
      visit(k, pending);
      if (code[k].target >= 0) arrive(static_cast<size_t>(code[k].target), pending);
      bool leaves =
          code[k].opcode == kBranch || code[k].opcode == kExit || code[k].opcode == kReturn;
      if (leaves && !code[k].is_conditional) falls = false;
    }
  }
}

}  // namespace

std::string_view sass_class_name(SassClass kind) {
  static constexpr std::string_view kNames[kSassClassCount] = {
      "arithmetic",   "float",       "double",        "function", "tensor",      "global_load",
      "global_store", "atomic",      "async_copy",    "box_copy", "shared_load", "shared_store",
      "local_load",   "local_store", "constant_load", "shuffle",  "barrier",     "branch",
      "call",         "uniform",     "other"};
  return kNames[static_cast<size_t>(kind)];
}

Result<std::vector<SassKernel>> read_sass(ByteView cubin) {
  auto sections = read_cubin_sections(cubin);
  if (!sections) return corrupt("these bytes are no cubin");
  constexpr int kLowBitsSince = 90, kCopyWidthSince = 100;
  const auto architecture = cubin_architecture(cubin);
  CodeForm form{architecture >= kLowBitsSince, architecture >= kCopyWidthSince ? 10 : 9};
  std::vector<SassKernel> kernels;
  for (const CubinSection& section : *sections) {
    if (!section.name.starts_with(kTextPrefix)) continue;
    SassKernel kernel;
    kernel.name = section.name.substr(kTextPrefix.size());
    kernel.code = decode(section.content, form);
    flow(kernel.code, [&](size_t k, const Pending&) { kernel.code[k].is_reached = true; });
    kernel.loops = find_loops(kernel.code);
    kernels.push_back(std::move(kernel));
  }
  std::sort(kernels.begin(), kernels.end(),
            [](const SassKernel& a, const SassKernel& b) { return a.name < b.name; });
  return kernels;
}

SassInFlight loads_in_flight(const SassKernel& kernel, std::optional<SassLoop> within) {
  SassInFlight most;
  flow(kernel.code, [&](size_t k, const Pending& pending) {
    if (within && (k < within->first || k > within->last)) return;
    SassInFlight now = pending.total();
    if (now.bytes > most.bytes) most = now;
  });
  return most;
}

int innermost_loop(const SassKernel& kernel, size_t instruction) {
  int found = -1;
  for (size_t k = 0; k < kernel.loops.size(); ++k) {
    const SassLoop& loop = kernel.loops[k];
    if (instruction < loop.first || instruction > loop.last) continue;
    // Loops come by where they begin, so that of those around it the last is the innermost.
    if (found < 0 || loop.last <= kernel.loops[static_cast<size_t>(found)].last) {
      found = static_cast<int>(k);
    }
  }
  return found;
}

}  // namespace common
