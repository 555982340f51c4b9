// Builds the text of one C function scope by scope, so that a value can be placed in the outermost
// scope that knows everything it depends on.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/cost/loop_work.h"
#include "common/ir/expr/bounds.h"
#include "common/ir/hlir/graph.h"
#include "common/lowering/text/indices.h"

namespace common {

// A value that earlier text computed: a C name or literal, and the depth of the scope it lives in.
struct CodeValue {
  std::string text;
  int level = 0;
  int index = -1;  // the loop index it is also known as, see bind_index; else -1
};

// What of a node a ValueKey names; the last two are of memory, with no node.
inline constexpr int kElementTag = 0;  // the element itself
inline constexpr int kIndexTag = 1;    // the element as a clamped index, a constant's table
inline constexpr int kLaneTag = 2;     // the array of elements over lanes
inline constexpr int kRowTag = 3;      // the elements along a row
inline constexpr int kSquareTag = 4;   // the transposed square at an offset
inline constexpr int kVectorTag = 5;   // the vector at an offset

// What a value is: node `node` (or an aspect of it, `tag`) at these indices.
struct ValueKey {
  NodeId node = 0;
  int tag = 0;
  Indices indices;
  friend bool operator==(const ValueKey&, const ValueKey&) = default;
};
struct ValueKeyHash {
  size_t operator()(const ValueKey& key) const noexcept;
};

// What one thread of a GPU does while a text runs, each step of a loop counted.
struct ThreadWork {
  double instructions = 0;
  double sector_bytes = 0;  // its share of the 32-byte sectors that its warp's accesses touch,
  double shared_sector_bytes = 0;  // and of those that other units touch too, so that they are near
  double in_flight_bytes = 0;      // most bytes of loads before the thread waits for the first
  double rounds = 0;               // of loads, each of which the next waits for
  double exchange_clocks = 0;      // that it waits for other threads
};

inline constexpr StepWork kSimpleStep{.simple = 1};

// Scope 0 is the function's body. Loop indices are Expr indices whose extents are known, so that
// every expression over them can be simplified. Not thread-safe.
class CodeWriter {
 public:
  explicit CodeWriter(std::vector<SymbolRange> symbols);
  CodeWriter(const CodeWriter&) = delete;
  CodeWriter& operator=(const CodeWriter&) = delete;
  ~CodeWriter();

  // ---- scopes
  // The innermost open scope.
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }
  // Opens a scope. A conditional scope may run zero times: what is not provably valid outside of
  // it stays inside.
  void open(bool conditional);
  // Opens a loop's scope: `trips` steps, whose index, spelled `name`, takes values in [0, extent).
  // Returns the index.
  int open_loop(std::string name, const Expr& extent, const Expr& trips);
  int open_loop(std::string name, const Expr& extent) {
    return open_loop(std::move(name), extent, extent);
  }
  // Opens the scope of a loop over blocks, which has no index.
  void open_blocks(const Expr& trips);
  // Closes the innermost scope and appends "header { text }" to the one around it.
  void close(const std::string& header);
  // Makes the innermost scope conditional.
  void make_conditional() { scopes_.back().conditional = true; }
  // The innermost scope's text so far, and "header { text }" with text from there, after it.
  const std::string& innermost_text() const { return scopes_.back().text; }
  void append_block(const std::string& header, const std::string& text);
  // Whether a scope holds loops so far.
  bool holds_loops() const { return scopes_.back().holds_loops; }
  bool holds_loops(int level) const { return scopes_[static_cast<size_t>(level)].holds_loops; }
  // The innermost conditional scope, 0 when there is none.
  int barrier() const;
  // A statement, with its semicolon, at the end of scope `level` so far. `work`: what it does.
  void line(int level, std::string_view statement, const StepWork& work = kSimpleStep);
  void line(std::string_view statement, const StepWork& work = kSimpleStep) {
    line(depth(), statement, work);
  }
  // Says that the innermost scope's loop visits its whole extent in order, together with the
  // `levels` - 1 loops over blocks around it.
  void covers_extent(int levels) { scopes_.back().covers = levels; }
  // The innermost scope's loop index when covers_extent said so, else -1.
  int covered_index() const { return scopes_.back().covers != 0 ? scopes_.back().loop_index : -1; }
  // Remembers a value once the innermost scope's loop is complete.
  void remember_after(const ValueKey& key, const CodeValue& value);
  // The index of the innermost loop at or around scope `level`; -1 when there is none.
  int loop_index(int level) const;

  // ---- what the text does: by loops for processors, by threads for GPUs
  // One step of scope `level` does this beside its statements.
  void add_work(int level, const StepWork& work) { counts(level).add(work); }
  // It has a loop that its statements only call.
  void add_work(int level, const LoopWork& loop) { counts(level).add(loop); }
  // Of the innermost scope's loop.
  void set_vectors(const VectorWish& vectors) { counts(depth()).set_vectors(vectors); }
  // Steps of the innermost scope's loop; of a condition's scope the share of cases in which it
  // holds.
  void set_trips(double trips) { scopes_.back().trips = trips; }
  // One thread of a GPU takes more instructions in scope `level` than it has statements.
  void add_instructions(int level, double instructions) {
    scopes_[static_cast<size_t>(level)].loads.work.instructions += instructions;
  }
  // Steps of a loop. Symbols count as a typical size within their range.
  double estimate(const Expr& trips) const;

  // Counts an access of device memory by one thread in scope `level`; a store waits for nothing.
  struct Access {
    double bytes = 0;
    double sector_bytes = 0;
    bool is_store = false;
    bool is_shared = false;  // other units access the same
    bool is_ahead = false;   // begun one step of the loop before
  };
  void add_access(int level, const Access& access);
  // The loads of scope `level` so far have arrived before what follows begins. `exchange_clocks`:
  // that threads then take to exchange what they computed.
  void end_round(int level, double exchange_clocks) {
    Loads& loads = scopes_[static_cast<size_t>(level)].loads;
    loads.end_round();
    loads.work.exchange_clocks += exchange_clocks;
  }

  // Sets the scopes inside of `level` aside while it lives: text then goes where they will follow.
  class Outward {
   public:
    Outward(CodeWriter& writer, int level);
    ~Outward();
    Outward(const Outward&) = delete;
    Outward& operator=(const Outward&) = delete;

   private:
    CodeWriter& writer_;
    size_t first_;
  };

  // ---- names and indices
  std::string fresh(std::string_view prefix);
  // A new index with values in [0, extent), spelled `name`, that ends with scope `level`.
  int bind_index(std::string name, const Expr& extent, int level);
  Expr simplify(const Expr& expr) const { return bounds_.simplify(expr); }
  const Bounds& bounds() const { return bounds_; }
  std::string text(const Expr& expr);
  // The same without counting its divisions: for code that runs rarely.
  std::string rare_text(const Expr& expr) const;
  // The scope of the innermost index in the expression.
  int level_of(const Expr& expr) const;
  int level_of_index(int id) const { return levels_[static_cast<size_t>(id)]; }
  // It has values in [0, extent).
  const Expr& extent(int id) const { return extents_[static_cast<size_t>(id)]; }
  const std::string& index_name(int id) const { return names_[static_cast<size_t>(id)]; }

  // ---- values
  const CodeValue* find(const ValueKey& key) const;
  // Remembered until the scopes of the value and of every index in the key end.
  void remember(const ValueKey& key, const CodeValue& value);
  // "const type name = expression;" in scope `level`. `work`: what the expression does.
  CodeValue declare(int level, std::string_view type, std::string_view prefix,
                    std::string_view expression, const StepWork& work = kSimpleStep);

  // The text of scope 0; nothing else may be open.
  std::string finish();
  int64_t statements() const { return statements_; }
  // What the finished text does when it runs, and the same of a GPU's thread.
  const std::vector<LoopWork>& loop_work() const { return loop_work_; }
  const ThreadWork& thread_work() const { return thread_work_; }
  // Indices that were divided, with the divisors.
  struct Division {
    std::string index;
    Expr divisor;
  };
  const std::vector<Division>& divided() const { return divided_; }

 private:
  // The work of a scope so far, and the loads since the last round.
  struct Loads {
    ThreadWork work;
    double pending_bytes = 0, ahead_bytes = 0;
    void end_round();
    // Adds what `trips` steps of a loop do; all loads of an unrolled one are one round.
    void add(const Loads& inner, double trips, bool is_unrolled);
  };
  struct Scope {
    std::string text;
    Loads loads;
    bool conditional = false;
    bool holds_loops = false;
    double trips = 1;
    LoopCounts counts;
    int loop_index = -1;
    int covers = 0;
    std::vector<std::pair<ValueKey, CodeValue>> after;  // remembered when `covers` scopes ended
    std::vector<int> indices;
    std::unordered_map<ValueKey, CodeValue, ValueKeyHash> values;
  };
  void rebuild_bounds();
  void end_scope(Scope& scope);
  void count_divisions(const Expr& expr);
  LoopCounts& counts(int level) { return scopes_[static_cast<size_t>(level)].counts; }

  std::vector<SymbolRange> symbols_;
  std::vector<Scope> scopes_;
  std::vector<Scope> aside_;
  std::vector<Expr> extents_;  // of index k, with its name and scope
  std::vector<std::string> names_;
  std::vector<int> levels_;
  std::vector<int> free_indices_;
  Bounds bounds_;
  int next_name_ = 0;
  int64_t statements_ = 0;
  std::vector<LoopWork> loop_work_;
  ThreadWork thread_work_;
  std::vector<Division> divided_;
};

}  // namespace common
