// Products as test cases state them.
#pragma once

#include "codegen_testing.h"
#include "common/base/contains.h"

namespace testing_codegen {

inline NodeId input(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "x");
}

inline NodeId contract(GraphBuilder& b, NodeId x, NodeId y, std::vector<int> lx,
                       std::vector<int> ly, std::vector<int> out) {
  bool wide = b.dtype(x) == DType::kFloat64 || b.dtype(y) == DType::kFloat64;
  Shape shape;
  for (int label : out) {
    for (size_t k = 0; k < lx.size(); ++k) {
      if (lx[k] == label) shape.push_back(b.shape(x)[k]);
    }
    if (common::contains(lx, label)) continue;
    for (size_t k = 0; k < ly.size(); ++k) {
      if (ly[k] == label) shape.push_back(b.shape(y)[k]);
    }
  }
  return b.raw({Op::kContract,
                wide ? DType::kFloat64 : DType::kFloat32,
                shape,
                {x, y},
                ContractAttr{lx, ly, out}});
}

// m x k times k x n in the given memory orders.
inline void add_product(KernelBatch& batch, Random& random, DType dtype, int64_t m, int64_t n,
                        int64_t k, bool turn_a, bool turn_b, Schedule schedule) {
  GraphBuilder b;
  std::vector<int64_t> a_sizes = turn_a ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k};
  std::vector<int64_t> b_sizes = turn_b ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
  NodeId x = input(b, dtype, Shape(a_sizes.begin(), a_sizes.end()));
  NodeId y = input(b, dtype, Shape(b_sizes.begin(), b_sizes.end()));
  b.output(contract(b, x, y, turn_a ? std::vector<int>{2, 0} : std::vector<int>{0, 2},
                    turn_b ? std::vector<int>{1, 2} : std::vector<int>{2, 1}, {0, 1}));
  batch.add(Template::kTile, std::move(schedule), b.finish(),
            {random_tensor(random, dtype, a_sizes), random_tensor(random, dtype, b_sizes)});
}

}  // namespace testing_codegen
