// torchvision's operators that sample images at computed places: roi_align and deform_conv2d.
#include <array>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

using common::Coordinate;

// One of the two positions along an axis that a place lies between, and its share of the value.
struct Neighbour {
  NodeId index = 0;
  NodeId weight = 0;
};
using Neighbours = std::array<Neighbour, 2>;

NodeId zero_unless(Context& c, NodeId condition, NodeId weight) {
  return c.b.select(condition, weight, number_like(c, weight, 0));
}

NodeId both(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kAnd, a, b); }

NodeId at_least_zero(Context& c, NodeId x) {
  return c.b.binary(BinaryOp::kLessEqual, number_like(c, x, 0), x);
}

// Positions outside of the image count as zeros.
Neighbours within_zeros(Context& c, NodeId place, const Expr& size) {
  NodeId end = c.b.size_scalar(c.b.dtype(place), size);
  NodeId low = c.b.unary(UnaryOp::kFloor, place);
  NodeId share = sub(c, place, low);
  auto neighbour = [&](NodeId at, NodeId weight) {
    NodeId inside = both(c, at_least_zero(c, at), c.b.binary(BinaryOp::kLess, at, end));
    return Neighbour{c.b.cast(at, DType::kInt64), zero_unless(c, inside, weight)};
  };
  return {neighbour(low, sub(c, number_like(c, share, 1), share)),
          neighbour(add(c, low, 1.0), share)};
}

// Places up to one position outside read the border; those further outside count as zeros.
Neighbours within_border(Context& c, NodeId place, const Expr& size) {
  NodeId end = c.b.size_scalar(c.b.dtype(place), size);
  NodeId last = add(c, end, -1.0);
  NodeId inside =
      both(c, at_least_zero(c, add(c, place, 1.0)), c.b.binary(BinaryOp::kLessEqual, place, end));
  NodeId held = c.b.binary(BinaryOp::kMin, maximum(c, place, 0), last);
  NodeId low = c.b.unary(UnaryOp::kFloor, held);
  NodeId share = sub(c, held, low);
  NodeId high = c.b.binary(BinaryOp::kMin, add(c, low, 1.0), last);
  NodeId rest = sub(c, number_like(c, share, 1), share);
  return {Neighbour{c.b.cast(low, DType::kInt64), zero_unless(c, inside, rest)},
          Neighbour{c.b.cast(high, DType::kInt64), zero_unless(c, inside, share)}};
}

// The bilinear values of an image: `indices` are those before its rows and columns, `where` is how
// every axis is read.
NodeId bilinear(Context& c, NodeId image, const std::vector<NodeId>& indices,
                const Neighbours& rows, const Neighbours& columns, const Shape& shape,
                const std::vector<Coordinate>& where) {
  NodeId total = c.b.full(c.b.dtype(image), shape, 0);
  for (const Neighbour& row : rows) {
    for (const Neighbour& column : columns) {
      std::vector<NodeId> all = indices;
      all.insert(all.end(), {row.index, column.index});
      NodeId value = c.b.gather(image, all, shape, where);
      total = add(c, total, mul(c, value, mul(c, row.weight, column.weight)));
    }
  }
  return total;
}

// Where the samples of each region lie along an axis: (regions, bins * samples), from the corners
// `first` and `last` of the regions, (regions, 1).
NodeId sample_places(Context& c, NodeId first, NodeId last, const Expr& bins, int64_t samples) {
  DType d = c.b.dtype(first);
  double offset = c.flag("aligned", false) ? 0.5 : 0;
  double scale = c.number("spatial_scale", 1);
  NodeId start = add(c, mul(c, first, scale), -offset);
  NodeId length = sub(c, add(c, mul(c, last, scale), -offset), start);
  if (offset == 0) length = maximum(c, length, 1);
  NodeId bin = div(c, length, c.b.size_scalar(d, bins));
  NodeId sample = c.b.unsqueeze(c.b.iota(d, c.b.simplify(bins * samples)), 0);
  NodeId in_bins = mul(c, add(c, sample, 0.5), 1.0 / static_cast<double>(samples));
  return add(c, start, mul(c, bin, in_bins));
}

// input (batch, channels, height, width), rois (regions, 5): number in the batch, x and y of two
// corners. Each bin is the mean of sampling_ratio^2 values.
void roi_align(Context& c) {
  int64_t samples = c.integer("sampling_ratio", -1);
  if (samples <= 0) {
    c.refuse("the number of samples depends on the regions' sizes; give sampling_ratio a number");
  }
  NodeId x = float_tensor(c, "input");
  NodeId rois = c.b.cast(c.tensor("rois"), c.b.dtype(x));
  Sizes out = c.out_shape();
  auto corner = [&](int64_t k) { return c.b.slice(rois, 1, k, 1); };
  auto samples_along = [&](int64_t first, size_t axis) {
    return sample_places(c, corner(first), corner(first + 2), out[axis], samples);
  };
  Expr height = c.b.simplify(out[2] * samples), width = c.b.simplify(out[3] * samples);
  Expr regions = out[0];
  auto shaped = [&](Neighbours n, const Shape& shape) {
    for (Neighbour& one : n) {
      one = {c.b.reshape(one.index, shape), c.b.reshape(one.weight, shape)};
    }
    return n;
  };
  Neighbours rows =
      shaped(within_border(c, samples_along(2, 2), c.b.size(x, 2)), {regions, 1, height, 1});
  Neighbours columns =
      shaped(within_border(c, samples_along(1, 3), c.b.size(x, 3)), {regions, 1, 1, width});
  NodeId batch = c.b.reshape(c.b.cast(corner(0), DType::kInt64), {regions, 1, 1, 1});
  NodeId values = bilinear(c, x, {batch}, rows, columns, {regions, out[1], height, width},
                           {{0, {}}, {-1, Expr::index(1)}, {1, {}}, {2, {}}});
  values = c.b.reshape(values, {regions, out[1], out[2], samples, out[3], samples});
  NodeId sum = c.b.reduce(ReduceOp::kSum, values, {3, 5});
  c.result(mul(c, sum, 1.0 / static_cast<double>(samples * samples)));
}

// Sizes of a deformable convolution.
struct Deformed {
  Expr batch, channels, height, width;  // of the result's places: height and width
  int64_t groups = 1, offset_groups = 1, rows = 1, columns = 1;
};

// Where each element of the kernel reads along an axis: (batch, offset groups, 1, elements, height,
// width). `part`: 0 for rows, 1 for columns, in the order of the offsets.
NodeId deformed_places(Context& c, const Deformed& s, NodeId offsets, int64_t part) {
  DType d = c.b.dtype(offsets);
  bool is_row = part == 0;
  auto number = [&](std::string_view row, std::string_view column) {
    return static_cast<double>(c.integer(is_row ? row : column));
  };
  NodeId element = c.b.iota(DType::kInt64, s.rows * s.columns);
  NodeId columns = c.b.scalar_int(DType::kInt64, s.columns);
  NodeId step = c.b.cast(c.b.binary(is_row ? BinaryOp::kDiv : BinaryOp::kMod, element, columns), d);
  step = c.b.reshape(mul(c, step, number("dilation_h", "dilation_w")), {s.rows * s.columns, 1, 1});
  NodeId place = positions(c, is_row ? s.height : s.width, is_row ? 1 : 2, 3, d);
  place = add(c, mul(c, place, number("stride_h", "stride_w")), -number("pad_h", "pad_w"));
  NodeId moved = c.b.squeeze(c.b.slice(offsets, 3, part, 1), 3);
  return c.b.unsqueeze(add(c, moved, add(c, place, step)), 2);
}

// input (batch, channels, height, width), offset (batch, 2 * offset groups * elements, *out), mask
// (batch, offset groups * elements, *out), weight (outputs, channels / groups, rows, columns).
void deform_conv2d(Context& c) {
  NodeId x = float_tensor(c, "input");
  DType d = c.b.dtype(x);
  NodeId weight = c.b.cast(c.tensor("weight"), d);
  Sizes out = c.out_shape(), kernel = c.b.shape(weight);
  if (!kernel[2].is_constant() || !kernel[3].is_constant())
    c.refuse("the kernel's size is symbolic");
  Deformed s{out[0],
             c.b.size(x, 1),
             out[2],
             out[3],
             c.integer("groups"),
             c.integer("offset_groups"),
             kernel[2].constant(),
             kernel[3].constant()};
  int64_t elements = s.rows * s.columns;
  auto share = common::exact_div(s.channels, s.offset_groups);
  auto outputs = common::exact_div(kernel[0], s.groups);
  if (!share || !outputs) c.refuse("the groups do not divide the channels");
  NodeId offsets = c.b.reshape(c.b.cast(c.tensor("offset"), d),
                               {s.batch, s.offset_groups, elements, 2, s.height, s.width});
  NodeId image = c.b.reshape(x, {s.batch, s.offset_groups, *share, c.b.size(x, 2), c.b.size(x, 3)});
  NodeId values = bilinear(
      c, image, {}, within_zeros(c, deformed_places(c, s, offsets, 0), c.b.size(x, 2)),
      within_zeros(c, deformed_places(c, s, offsets, 1), c.b.size(x, 3)),
      {s.batch, s.offset_groups, *share, elements, s.height, s.width},
      {{-1, Expr::index(0)}, {-1, Expr::index(1)}, {-1, Expr::index(2)}, {0, {}}, {1, {}}});
  if (c.flag("use_mask", false)) {
    values = mul(c, values,
                 c.b.reshape(c.b.cast(c.tensor("mask"), d),
                             {s.batch, s.offset_groups, 1, elements, s.height, s.width}));
  }
  Expr places = c.b.simplify(s.height * s.width);
  Expr depth = c.b.simplify(kernel[1] * elements);
  NodeId columns = c.b.reshape(values, {s.batch, s.groups, depth, places});
  NodeId rows = c.b.reshape(weight, {1, s.groups, *outputs, depth});
  NodeId product = c.b.reshape(matmul(c, rows, columns), out);
  c.result(add(c, product, per_channel(c, c.b.cast(c.tensor("bias"), d), product)));
}

}  // namespace

void add_regions_operators(OperatorTable* t) {
  t->add("torchvision.roi_align", roi_align);
  t->add("torchvision.deform_conv2d", deform_conv2d);
}

}  // namespace clients
