// A contraction as a batch of matrix products, and the indices at which its parts are read: what
// kernels for every kind of device ask before they choose their tiles.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/grouped_form.h"
#include "common/lowering/body/body_emitter.h"
#include "common/lowering/body/plain_read.h"

namespace common {

// The left operand gives rows (m), the right one columns (n); both are summed over k.
enum class Side : uint8_t { kLeft, kRight };

// The body's only contraction; -1 where there is none, or more.
NodeId only_contraction(const Graph& body);

class Contraction {
 public:
  // `body` outlives it; `node` is a kContract.
  Contraction(const Graph& body, NodeId node);
  // That of one group, whose number is the only batch index. Borrows `group`.
  explicit Contraction(const GroupProduct& group);

  NodeId id() const { return id_; }
  const Graph& body() const { return body_; }
  const Node& node() const { return body_.node(id_); }
  const TileProblem& problem() const { return problem_; }
  NodeId operand(Side side) const;
  DType operand_dtype(Side side) const { return body_.node(operand(side)).dtype; }
  // Labels of the side's rows or columns, and the product of their sizes.
  const std::vector<int>& own_labels(Side side) const {
    return side == Side::kLeft ? problem_.m : problem_.n;
  }
  const Expr& own_size(Side side) const {
    return side == Side::kLeft ? problem_.m_size : problem_.n_size;
  }
  std::vector<Expr> sizes_of(const std::vector<int>& labels) const;
  Expr batch_size() const;
  // Where rows multiply matrices of their own, what says which; else null.
  const GroupProduct* group() const { return group_; }

  // Indices of the side's operand at a batch element (an index for each label), and at the flat
  // indices `own` and `k`.
  Indices operand_at(Side side, const std::vector<Expr>& batch, const Expr& own,
                     const Expr& k) const;
  // The same with an index for each of the side's own labels and for each of k's.
  Indices operand_at(Side side, const std::vector<Expr>& batch, const std::vector<Expr>& own,
                     const std::vector<Expr>& k) const;
  // Indices of the product's element.
  Indices product_at(const std::vector<Expr>& batch, const Expr& m, const Expr& n) const;
  // Whether the operand's memory runs along k and not along its own axis.
  bool runs_along_k(Side side) const;
  // Whether the memory of the body's first output runs along the rows rather than the columns.
  bool output_runs_along_rows() const;
  // Where an operand that lies in an input as it is, is read (see plain_read.h).
  std::optional<PlainRead> read_at(Side side, const Indices& at, BodyEmitter& emitter) const {
    return plain_read(operand(side), at, emitter);
  }
  // Whether runs of `length` elements along k (or the side's own axis), counted from 0, lie side by
  // side in an input that is read as it is, each run at a multiple of its length.
  bool reads_chunks(Side side, bool along_k, int64_t length) const;

 private:
  // Indices over labels, bound one by one in `trial`; returns the last of the labels' index, or -1.
  int bind_labels(const std::vector<int>& labels, CodeWriter& trial, LabelIndices& indices) const;
  const std::vector<int>& operand_labels(Side side) const;

  const Graph& body_;
  NodeId id_;
  TileProblem problem_;
  const GroupProduct* group_ = nullptr;
};

}  // namespace common
