#include "common/lowering/text/shared_loops.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace common {

namespace {

// Of one thread; more than 16 are taken in several accesses.
constexpr int64_t kMaxVectorBytes = 64;
// Of one thread's steps in a loop that is unrolled.
constexpr int64_t kRowRegisters = 32;
constexpr int64_t kSectorBytes = 32;
constexpr int64_t kWarp = 32;
constexpr int64_t kRegisterBytes = 4;

std::string vector_of(DType dtype, int64_t width) {
  return cat("<", c_storage_type(dtype), ", ", width, ">");
}

}  // namespace

Expr SharedLoops::open(const Expr& extent) {
  Loop loop;
  loop.base = w_.depth();
  Expr blocks = extent;
  auto vectors = exact_div(extent, team_.vector);
  if (vectors && team_.vector > 1) {
    loop.width = team_.vector;
    blocks = *vectors;
  }
  Expr trips = floor_div(blocks + Expr(sharing() - 1), Expr(sharing()));
  if (trips.is_constant() && trips.constant() * loop.width <= kRowRegisters) {
    open_unrolled(loop, blocks, trips.constant());
  } else {
    std::string b = w_.fresh("j");
    std::string n = w_.text(blocks);
    loop.lane = w_.open_loop(b, blocks, trips);
    loop.blocks = blocks;
    loop.header = counting_loop(b, member(), n, sharing());
  }
  Expr block = Expr::index(loop.lane);
  loops_.push_back(std::move(loop));
  Expr step = open_steps(block);
  loops_.back().depth = w_.depth();
  return step;
}

void SharedLoops::open_unrolled(Loop& loop, const Expr& blocks, int64_t trips) {
  std::string k = w_.fresh("k");
  std::string j = w_.fresh("j");
  w_.open_blocks(trips);
  w_.line(cat("const int64_t ", j, " = ", member(), " + ", sharing(), " * ", k, ";"));
  loop.header = cat("#pragma unroll\n", counting_loop(k, "0", cat(trips)));
  if (!blocks.is_constant(trips * sharing())) {
    w_.open(true);
    loop.guard = cat("if (", j, " < ", w_.text(blocks), ")");
  }
  loop.lane = w_.bind_index(j, blocks, w_.depth());
  loop.blocks = blocks;
  loop.slots = trips * loop.width;
  loop.slot = loop.width == 1 ? k : cat(k, " * ", loop.width);
}

Expr SharedLoops::open_steps(const Expr& block) {
  Loop& loop = loops_.back();
  loop.level = w_.depth();
  if (loop.width == 1) return block;
  std::string v = w_.fresh("l");
  loop.index = w_.open_loop(v, loop.width);
  loop.step_header = cat("#pragma unroll\n", counting_loop(v, "0", cat(loop.width)));
  if (loop.slots != 0) loop.slot += cat(" + ", v);
  return block * Expr(loop.width) + Expr::index(loop.index);
}

SquareSteps SharedLoops::open_square(int64_t rows, int64_t columns) {
  SquareSteps steps{rows, columns / team_.vector, team_.vector, team_.size};
  open(rows * columns);
  Loop& loop = loops_.back();
  steps.base = loop.base;
  steps.step = loop.index;
  Expr number = Expr::index(loop.lane);
  auto declare = [&](const char* prefix, const Expr& place, int64_t extent) {
    std::string name = w_.fresh(prefix);
    w_.line(loop.level, cat("const int64_t ", name, " = ", w_.text(place), ";"));
    return w_.bind_index(name, extent, loop.level);
  };
  steps.row = declare("w", floor_div(number, steps.chunks), rows);
  steps.chunk = declare("v", mod(number, steps.chunks), steps.chunks);
  loop.lane = steps.chunk;  // neighbouring threads take neighbouring chunks
  return steps;
}

Expr SharedLoops::open_block(const Expr& block) {
  loops_.emplace_back();
  loops_.back().width = team_.vector;
  return open_steps(block);
}

void SharedLoops::close() {
  Loop loop = std::move(loops_.back());
  loops_.pop_back();
  if (loop.slots != 0) {
    int scopes = 1 + (loop.guard.empty() ? 0 : 1) + (loop.step_header.empty() ? 0 : 1);
    w_.covers_extent(scopes);
  }
  if (!loop.step_header.empty()) w_.close(loop.step_header);
  for (const std::string& store : loop.stores) w_.line(store);
  if (!loop.guard.empty()) w_.close(loop.guard);
  if (!loop.header.empty()) w_.close(loop.header);
}

int SharedLoops::lane_index() const {
  bool shares = team_.side == 1 && !loops_.empty() && loops_.back().lane >= 0;
  return shares ? loops_.back().lane : team_.lane;
}

bool SharedLoops::is_together() const {
  if (team_.size == 1 || w_.depth() > team_.level) return false;
  // Loops around the innermost scope, which may be further out than the team's own scope; those
  // that are set aside begin no further out than here.
  return std::none_of(loops_.begin(), loops_.end(),
                      [&](const Loop& loop) { return loop.base < w_.depth(); });
}

bool SharedLoops::begin_split() {
  // What a shared reduction needs comes before it, when the other blocks are still there.
  if (in_split_) needs_another_ = true;
  if (in_split_) return false;
  in_split_ = team_.blocks > 1 && !is_split_;
  if (!in_split_) return false;
  w_.line(cat("const int64_t wide = member + ", team_.size, " * (int64_t)(blockIdx.x % ",
              team_.blocks, ");"));
  return true;
}

void SharedLoops::end_split() {
  in_split_ = false;
  is_split_ = true;
}

SharedLoops::Loop* SharedLoops::vector_loop(const Expr& offset, DType dtype) {
  for (Loop& loop : loops_) {
    if (loop.width == 1 || loop.width * dtype_size(dtype) > kMaxVectorBytes) continue;
    if (stride_along(offset, loop.index) != 1) continue;
    Expr first = with_index({offset}, loop.index, 0)[0];
    if (w_.level_of(first) <= loop.level && exact_div(first, loop.width)) return &loop;
  }
  return nullptr;
}

std::optional<CodeValue> SharedLoops::load(const std::string& pointer, DType dtype,
                                           const Expr& offset) {
  Loop* loop = vector_loop(offset, dtype);
  if (loop == nullptr) return std::nullopt;
  Expr first = w_.simplify(offset - Expr::index(loop->index));
  ValueKey key{0, kVectorTag, {first}};
  for (char c : pointer) key.indices.push_back(Expr(c));
  std::string name;
  if (const CodeValue* known = w_.find(key)) {
    name = known->text;
  } else {
    // What does not change from block to block is loaded before the loop over them.
    const int level = std::min(loop->level, std::max(w_.level_of(first), w_.barrier()));
    CodeWriter::Outward outward(w_, level);
    std::string type = vector_of(dtype, loop->width);
    name = load_vector(*loop, level, type, pointer, first);
    w_.remember(key, {name, level, -1});
    int64_t size = dtype_size(dtype);
    note_access(first, size, size * loop->width, false, level, loop->next >= 0);
  }
  return w_.declare(w_.level_of_index(loop->index), c_value_type(dtype), "v",
                    cat(name, "[", w_.index_name(loop->index), "]"));
}

std::string SharedLoops::load_vector(Loop& loop, int level, const std::string& type,
                                     const std::string& pointer, const Expr& first) {
  std::string name = level == loop.level ? load_ahead(loop, type, pointer, first) : "";
  if (!name.empty()) return name;
  return w_
      .declare(level, cat("LfVec", type), "x",
               cat("lf_load", type, "(", pointer, " + ", w_.text(first), ")"))
      .text;
}

std::string SharedLoops::load_ahead(Loop& loop, const std::string& type, const std::string& pointer,
                                    const Expr& first) {
  if (!team_.ahead || loop.slots != 0 || loop.lane < 0 || loop.level != w_.depth()) return "";
  if (w_.level_of(with_index({first}, loop.lane, 0)[0]) > loop.base) return "";
  went_ahead_ = true;
  std::string name = w_.fresh("x"), next = cat(name, "_next");
  std::string n = w_.text(loop.blocks);
  auto load = [&](int index) {
    Expr there = w_.simplify(with_index({first}, loop.lane, Expr::index(index))[0]);
    return cat(next, " = lf_load", type, "(", pointer, " + ", w_.text(there), ");");
  };
  {
    CodeWriter::Outward before(w_, loop.base);
    std::string begin = w_.fresh("j");
    w_.line(cat("const int64_t ", begin, " = ", member(), ";"));
    int index = w_.bind_index(begin, loop.blocks, loop.base);
    w_.line(cat("LfVec", type, " ", next, ";"));
    w_.line(cat("if (", begin, " < ", n, ") ", load(index)));
  }
  if (loop.next < 0) {
    std::string later = w_.fresh("j");
    w_.line(cat("const int64_t ", later, " = ", w_.index_name(loop.lane), " + ", sharing(), ";"));
    loop.next = w_.bind_index(later, loop.blocks, loop.level);
  }
  w_.line(cat("const LfVec", type, " ", name, " = ", next, ";"));
  w_.line(cat("if (", w_.index_name(loop.next), " < ", n, ") ", load(loop.next)));
  return name;
}

std::string SharedLoops::store(const std::string& name, DType dtype, const Expr& offset,
                               const StoreGuard& guard) {
  Loop* loop = vector_loop(offset, dtype);
  if (loop == nullptr || guard.level > loop->level) return "";
  Expr first = w_.simplify(offset - Expr::index(loop->index));
  std::string vector = w_.fresh("y");
  std::string type = vector_of(dtype, loop->width);
  {
    CodeWriter::Outward outward(w_, loop->level);
    w_.line(cat("LfVec", type, " ", vector, ";"));
    note_access(first, dtype_size(dtype), dtype_size(dtype) * loop->width, true, loop->level);
  }
  std::string condition = guard.condition.empty() ? "" : cat("if (", guard.condition, ") ");
  std::string to = cat(name, " + ", w_.text(first));
  std::string store = cat("lf_store", type, "(", to, ", ", vector, ");");
  const StoreBatch& batch = team_.batch;
  if (batch.steps > 1) {
    batches_.push_back(w_.fresh("later"));
    w_.line(batch.level, cat("LfLater", type, " ", batches_.back(), "[", batch.steps, "];"));
    store = cat(batches_.back(), "[", batch.step, "].leave(", to, ", ", vector, ");");
  }
  loop->stores.push_back(condition + store);
  return cat(vector, ".e[", w_.index_name(loop->index), "]");
}

void SharedLoops::store_batch() {
  for (const std::string& each : batches_) {
    w_.line(cat("#pragma unroll\n", counting_loop("l", "0", cat(team_.batch.steps)), " ", each,
                "[l].store();"));
  }
  batches_.clear();
}

void SharedLoops::note_access(const Expr& offset, int64_t element_bytes, int64_t bytes,
                              bool is_store, int level, bool is_ahead) {
  int lane = lane_index();
  int64_t stride = lane < 0 ? 0 : std::abs(stride_along(offset, lane));
  // What neighbours leave out between them is read all the same, as far as a sector goes; what all
  // of a warp read is read once for them.
  int64_t apart = std::min(stride * element_bytes, std::max(bytes, kSectorBytes));
  int64_t share = stride == 0 ? std::max<int64_t>(bytes / kWarp, 1) : std::max(apart, bytes);
  bool is_own = false;
  offset.visit_vars([&](Var v) {
    is_own = is_own || (v.kind == Var::Kind::kIndex && w_.level_of_index(v.id) <= team_.level);
  });
  w_.add_access(level, {static_cast<double>(bytes), static_cast<double>(share), is_store,
                        !is_own && !is_store, is_ahead});
}

std::optional<RowLoop> SharedLoops::row_loop() const {
  // Of a loop that blocks share, no thread sees the same steps again.
  if (loops_.empty() || in_split_) return std::nullopt;
  const Loop& loop = loops_.back();
  if (loop.slots == 0 || w_.depth() != loop.depth) return std::nullopt;
  return RowLoop{loop.base, {loop.lane, loop.index}, false, {loop.blocks, Expr(loop.width)}};
}

std::string SharedLoops::declare_row(DType dtype) {
  std::string name = w_.fresh("row");
  CodeWriter::Outward outward(w_, loops_.back().base);
  w_.line(cat(c_value_type(dtype), " ", name, "[", loops_.back().slots, "];"));
  // Neighbours that are loaded together share registers.
  int64_t size =
      loops_.back().width > 1 ? dtype_size(dtype) : std::max(kRegisterBytes, dtype_size(dtype));
  row_bytes_ += static_cast<double>(loops_.back().slots * size);
  return name;
}

std::string SharedLoops::row_place(std::string_view row) const {
  return cat(row, "[", loops_.back().slot, "]");
}

}  // namespace common
