// HLIR: a model as a graph of few primitives over tensors with symbolic shapes.
//
// Every node has one result, stored row-major and contiguous when it is stored at all. Movement
// is a view node and never a copy. Arithmetic is on float32, float64, integers and booleans;
// float16 and bfloat16 are cast before and after, so rounding is where the model says it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/bytes.h"
#include "common/ir/expr/expr.h"
#include "common/ir/hlir/dtype.h"
#include "common/ir/hlir/view.h"

namespace common {

using NodeId = int32_t;

enum class Op : uint8_t {
  // Primitives.
  kInput,       // InputAttr
  kConstant,    // ConstantAttr
  kIota,        // 0, 1, 2, ... along the one axis; any integer dtype or float32/float64
  kView,        // ViewAttr
  kCast,        // to the node's dtype; float to integer truncates, to bool is "not zero"
  kUnary,       // UnaryAttr
  kBinary,      // BinaryAttr; operands have equal shapes and dtypes
  kSelect,      // (bool condition, a, b): condition ? a : b, elementwise
  kReduce,      // ReduceAttr; the reduced axes are removed
  kScan,        // ScanAttr
  kGather,      // GatherAttr
  kScatter,     // ScatterAttr
  kSort,        // SortAttr; int64 positions that sort the operand along an axis
  kLoop,        // LoopAttr; several results, each taken by a kLoopResult
  kLoopResult,  // LoopResultAttr
  // Structure that rules find; each equals a composition of primitives.
  kContract,  // ContractAttr: matmul and its relatives
  kSoftmax,   // SoftmaxAttr
  kNorm,      // NormAttr: layer norm and RMS norm without their affine part
  // A primitive again, though products with twiddles compute it too.
  kFourier,  // FourierAttr
  kPhilox,   // random bits or numbers; see below
};
inline constexpr int kOpCount = 20;
std::string_view op_name(Op op);
// Whether each element of the result depends on the same element of each operand alone.
bool is_elementwise(Op op);

enum class UnaryOp : uint8_t {
  kNeg,
  kAbs,
  kSign,
  kNot,  // kNot: logical on bool, bitwise on integers
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSqrt,
  kRsqrt,
  kRecip,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kErfc,
  kSigmoid,
  kFloor,
  kCeil,
  kTrunc,
  kRound,  // kRound: half to even
  kIsNan,
  kIsInf,  // to bool
  kLgamma,
  kDigamma,
  kErfinv,
};
inline constexpr int kUnaryOpCount = 38;
std::string_view unary_name(UnaryOp op);

enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,       // floats: true division; integers: truncated
  kFloorDiv,  // rounds towards minus infinity, floats and integers
  kMod,       // sign of the divisor (Python's %)
  kFmod,      // sign of the dividend (C's %)
  kMin,
  kMax,  // NaN wins, as in torch.minimum
  kPow,
  kAtan2,
  kCopysign,
  kHypot,
  kNextafter,
  kAnd,
  kOr,
  kXor,
  kShl,
  kShr,  // bool and integers
  kLess,
  kLessEqual,
  kEqual,
  kNotEqual,  // to bool
};
inline constexpr int kBinaryOpCount = 23;
std::string_view binary_name(BinaryOp op);
bool is_comparison(BinaryOp op);

enum class ReduceOp : uint8_t { kSum, kProd, kMax, kMin, kAny, kAll, kArgmax, kArgmin };
inline constexpr int kReduceOpCount = 8;
std::string_view reduce_name(ReduceOp op);  // argmax, argmin: first position, to int64

enum class ScanOp : uint8_t { kSum, kProd, kMax, kMin, kLogSumExp };
inline constexpr int kScanOpCount = 5;
std::string_view scan_name(ScanOp op);

enum class ScatterMode : uint8_t { kAssign, kAdd, kMul, kMin, kMax };
inline constexpr int kScatterModeCount = 5;
std::string_view scatter_name(ScatterMode mode);

struct InputAttr {
  int position = 0;  // into Graph::inputs
  friend bool operator==(const InputAttr&, const InputAttr&) = default;
};
// Row-major elements of the node's dtype and (constant) shape; at most kMaxConstantBytes.
struct ConstantAttr {
  std::shared_ptr<const Bytes> data;
  friend bool operator==(const ConstantAttr& a, const ConstantAttr& b) {
    return a.data == b.data || *a.data == *b.data;
  }
};
inline constexpr size_t kMaxConstantBytes = 4096;
struct ViewAttr {
  View view;
  friend bool operator==(const ViewAttr&, const ViewAttr&) = default;
};
struct UnaryAttr {
  UnaryOp op{};
  friend bool operator==(const UnaryAttr&, const UnaryAttr&) = default;
};
struct BinaryAttr {
  BinaryOp op{};
  friend bool operator==(const BinaryAttr&, const BinaryAttr&) = default;
};
// Sums and products of floats accumulate in the operand's dtype or wider, of integers in the
// operand's dtype. Empty extents give the neutral element (0, 1, -inf, inf).
struct ReduceAttr {
  ReduceOp op{};
  std::vector<int> axes;  // sorted, distinct
  friend bool operator==(const ReduceAttr&, const ReduceAttr&) = default;
};
// Inclusive, along one axis, from position 0 upwards; the shape stays.
struct ScanAttr {
  ScanOp op{};
  int axis = 0;
  friend bool operator==(const ScanAttr&, const ScanAttr&) = default;
};
// Where one data axis is read: at operand `indices[slot]`'s value, or at an expression over the
// loop indices when slot < 0.
struct Coordinate {
  int slot = -1;
  Expr expr;
  friend bool operator==(const Coordinate&, const Coordinate&) = default;
};
// Operands: data, then index tensors, each of the node's shape (views broadcast them).
// out[i] = data[c0(i), c1(i), ...]; values from index tensors are clamped to [0, size - 1].
struct GatherAttr {
  std::vector<Coordinate> coordinates;  // one per data axis
  friend bool operator==(const GatherAttr&, const GatherAttr&) = default;
};
// Operands: base, updates, then index tensors of the updates' shape. The result is `base` with
// updates[j] combined into position [c0(j), c1(j), ...] for every j in row-major order; positions
// out of range are dropped. Coordinates' expressions are over the updates' loop indices.
struct ScatterAttr {
  ScatterMode mode{};
  std::vector<Coordinate> coordinates;  // one per base axis
  friend bool operator==(const ScatterAttr&, const ScatterAttr&) = default;
};
// Stable; NaN counts as the greatest value.
struct SortAttr {
  int axis = 0;
  bool descending = false;
  int64_t count = 0;  // the result has the first so many positions of the axis; 0: all of them
  friend bool operator==(const SortAttr&, const SortAttr&) = default;
};

struct Graph;
// Runs `body` trip_count times. Operands: C carried values, V invariants, then for each of the P
// per-iteration inputs its trip_count values. Body inputs: C carried, V invariant, P per-iteration.
// Body outputs: the C next carried values, then Q per-iteration outputs.
// Results: C final carried values, then for each of the Q outputs its trip_count values.
// The body's symbols are the enclosing graph's symbols.
struct LoopAttr {
  std::shared_ptr<const Graph> body;
  int64_t trip_count = 0;
  int carried = 0;
  int invariant = 0;
  int per_iteration = 0;
  int outputs = 0;
  friend bool operator==(const LoopAttr& a, const LoopAttr& b);
};
struct LoopResultAttr {
  int result = 0;
  friend bool operator==(const LoopResultAttr&, const LoopResultAttr&) = default;
};
// out[o] = sum over the labels that are not in `out` of a[..] * b[..]: an einsum. Each axis carries
// a label, whose size is the same wherever it occurs; no label repeats within one operand. Operands
// are floats; the result (and the accumulation) is float32, or float64 for float64. A third operand
// is an order in which kernels may visit the one label that a, b and out share (grouped_form.h).
struct ContractAttr {
  std::vector<int> a, b, out;
  friend bool operator==(const ContractAttr&, const ContractAttr&) = default;
};
// Along one axis of a float32 or float64 operand; log: the logarithm of the softmax.
struct SoftmaxAttr {
  int axis = 0;
  bool log = false;
  friend bool operator==(const SoftmaxAttr&, const SoftmaxAttr&) = default;
};
// (x - m) * rsqrt(mean((x - m)^2) + epsilon) over the last `axes` axes; m is the mean, or 0 when
// `centred` is false (RMS norm).
struct NormAttr {
  int axes = 1;
  bool centred = true;
  double epsilon = 0;
  friend bool operator==(const NormAttr&, const NormAttr&) = default;
};

// One part of the transform along the last axis of a real operand, or of two operands of equal
// shape that are real and imaginary parts:
//   out[.., q] = part of sum over p of x[.., p] exp(s 2 pi i p q / n), q < count,
// s = 1 for the inverse and -1 otherwise, never normalised; count <= n, which is constant. Float32
// or float64. Sums are split in any way, so a row with an infinity or NaN gives nothing defined.
inline constexpr int64_t kMaxFourierPoints = int64_t{1} << 30;
struct FourierAttr {
  bool imaginary = false;
  bool inverse = false;
  int64_t count = 0;
  friend bool operator==(const FourierAttr&, const FourierAttr&) = default;
};

// A kPhilox has no attribute. Operands: (seed, offset, subsequence, word), int64 of the node's
// shape. It is Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
// (2011): key `seed`, counter (offset low, offset high, subsequence low, subsequence high), of
// whose four 32-bit results `word` modulo 4 chooses one, x. An int64 node is x; a float32 node is a
// number in (0, 1], float32(x) * 2^-32 + 2^-33 rounded once after the sum.
using Attr = std::variant<std::monostate, InputAttr, ConstantAttr, ViewAttr, UnaryAttr, BinaryAttr,
                          ReduceAttr, ScanAttr, GatherAttr, ScatterAttr, SortAttr, LoopAttr,
                          LoopResultAttr, ContractAttr, SoftmaxAttr, NormAttr, FourierAttr>;

struct Node {
  Op op{};
  DType dtype{};
  Shape shape;
  std::vector<NodeId> operands;
  Attr attr;
  friend bool operator==(const Node&, const Node&) = default;
};

enum class InputKind : uint8_t {
  kUser,    // given at every call
  kWeight,  // parameter, buffer or constant that nothing mutates; bound once
  kState,   // buffer that the model mutates; kept by the instance from call to call
};
struct GraphInput {
  InputKind kind{};
  DType dtype{};
  Shape shape;
  std::string name;  // for people; not part of the graph's identity
  friend bool operator==(const GraphInput&, const GraphInput&) = default;
};
enum class OutputKind : uint8_t {
  kUser,    // returned to the caller, in order
  kMutate,  // the new content of input `input` (a kState, or a kUser the model mutates)
  kCheck,   // whether indices were in range; see below
};
// The value of a kCheck is an int64 scalar: the smallest row-major position of an index outside of
// [0, limit), or of [-limit, limit) when `wraps`, and kNoPosition when there is none. Positions are
// those of user input `input`, or of a tensor inside the model when it is -1. Runtimes report a
// position to the caller as an error and return no kCheck.
inline constexpr int64_t kNoPosition = INT64_MAX;
struct GraphOutput {
  OutputKind kind{};
  NodeId node = 0;
  int input = -1;
  Expr limit = 0;      // of a kCheck
  bool wraps = false;  // of a kCheck
  friend bool operator==(const GraphOutput&, const GraphOutput&) = default;
};

// A size symbol s<k>. At run time its value is read off the inputs' shapes.
struct Graph {
  std::vector<SymbolRange> symbols;
  std::vector<GraphInput> inputs;
  std::vector<Node> nodes;  // operands come before users
  std::vector<GraphOutput> outputs;

  const Node& node(NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  friend bool operator==(const Graph&, const Graph&) = default;
};

template <class T>
const T& attr(const Node& node) {
  return std::get<T>(node.attr);
}

// The shape and dtype of result `index` of a loop node.
struct TensorType {
  DType dtype{};
  Shape shape;
};
TensorType loop_result_type(const Node& loop, int index);

// How many nodes read each node, outputs counted.
std::vector<int> use_counts(const Graph& graph);
// A flag per node: whether an output needs it.
std::vector<char> live_nodes(const Graph& graph);
// Drops nodes that no output needs (inputs' declarations stay) and renumbers.
Graph without_dead_nodes(const Graph& graph);

// One flag per symbol: whether any shape, view or coordinate mentions it, loop bodies included.
std::vector<char> used_symbols(const Graph& graph);
// Used symbols whose values no input's shape shows by itself: run alone, the graph could not tell
// its sizes. A graph cut out of another takes an input that shows them along.
std::vector<int> hidden_symbols(const Graph& graph);
bool shows_symbol(const Shape& shape, int symbol);

// Reads the symbols' values off the inputs' actual sizes. kInvalidInput when a size differs from
// what the graph says or a symbol leaves its range, naming the input.
Result<std::vector<int64_t>> bind_symbols(const Graph& graph,
                                          const std::vector<std::vector<int64_t>>& input_sizes);
std::vector<int64_t> evaluate_shape(const Shape& shape, std::span<const int64_t> symbols);

}  // namespace common
