// A convolution as plans compute it: windows of images whose channels are last, times a weight
// whose summed channels are last.
#pragma once

#include <string>
#include <vector>

#include "codegen_testing.h"

namespace testing_codegen {

struct ConvolutionCase {
  struct Axis {
    int64_t size = 8, taps = 3, stride = 1, dilation = 1, padding = 1;
    int64_t behind = -1;  // padding behind the image; -1: as before it
    int64_t count() const {
      int64_t padded = size + padding + (behind < 0 ? padding : behind);
      return (padded - dilation * (taps - 1) - 1) / stride + 1;
    }
  };
  std::vector<Axis> axes = std::vector<Axis>(2);  // the slowest first
  DType dtype = DType::kBfloat16;
  int64_t images = 2;  // 0: one, without an axis of its own
  int64_t channels = 64, columns = 72;
  bool weight_across = false;  // the weight's columns are its fastest axis
  bool has_epilogue = false;   // a bias, another value and a bound, rounded
  bool is_symbolic = false;    // the number of images
};

inline std::string print(const ConvolutionCase& c) {
  std::string text = cat(dtype_name(c.dtype), " images=", c.images, " channels=", c.channels,
                         " columns=", c.columns, c.weight_across ? " across" : "",
                         c.has_epilogue ? " epilogue" : "", c.is_symbolic ? " symbolic" : "");
  for (const auto& a : c.axes) {
    text += cat(" [", a.size, " taps=", a.taps, " stride=", a.stride, " dilation=", a.dilation,
                " padding=", a.padding, ",", a.behind, "]");
  }
  return text;
}

// Adds its kernel, with random values of [-1, 1].
inline void add_convolution(KernelBatch& batch, Random& random, const ConvolutionCase& c,
                            Schedule schedule) {
  GraphBuilder b(c.is_symbolic ? std::vector<SymbolRange>{{0, 64}} : std::vector<SymbolRange>{});
  const bool has_images = c.images > 0;
  std::vector<int64_t> image, weight{c.columns}, out;
  if (has_images) image.push_back(c.images);
  for (const auto& a : c.axes) image.push_back(a.size);
  image.push_back(c.channels);
  for (const auto& a : c.axes) weight.push_back(a.taps);
  weight.push_back(c.channels);
  if (c.weight_across) std::rotate(weight.begin(), weight.begin() + 1, weight.end());
  Shape shape(image.begin(), image.end());
  if (c.is_symbolic) shape[0] = Expr::symbol(0);
  NodeId x = b.input(InputKind::kUser, c.dtype, shape, "x");
  NodeId w = b.input(InputKind::kUser, c.dtype, Shape(weight.begin(), weight.end()), "w");
  // Axes of the windows: [images], places, taps, channels; labels are their numbers and the
  // columns' one more.
  const auto rows = static_cast<int>(has_images) + static_cast<int>(c.axes.size());
  const auto taps = static_cast<int>(c.axes.size());
  const int channel = rows + taps, column = channel + 1;
  View windows;
  ContractAttr labels;
  if (has_images) {
    windows.shape.push_back(shape[0]);
    windows.index.push_back(Expr::index(0));
  }
  for (int a = 0; a < taps; ++a) {
    const auto& axis = c.axes[static_cast<size_t>(a)];
    windows.shape.push_back(axis.count());
    out.push_back(axis.count());
    Expr position = Expr::index(static_cast<int>(has_images) + a) * Expr(axis.stride) +
                    Expr::index(rows + a) * Expr(axis.dilation) - Expr(axis.padding);
    windows.index.push_back(position);
    if (axis.padding > 0 || axis.behind > 0) windows.valid.push_back({position, axis.size});
  }
  for (const auto& axis : c.axes) windows.shape.push_back(axis.taps);
  windows.shape.push_back(c.channels);
  windows.index.push_back(Expr::index(channel));
  Shape result(windows.shape.begin(), windows.shape.begin() + rows);
  result.push_back(c.columns);
  for (int label = 0; label <= channel; ++label) labels.a.push_back(label);
  labels.b.push_back(column);
  for (int label = rows; label <= channel; ++label) labels.b.push_back(label);
  if (c.weight_across) std::rotate(labels.b.begin(), labels.b.begin() + 1, labels.b.end());
  for (int label = 0; label < rows; ++label) labels.out.push_back(label);
  labels.out.push_back(column);
  NodeId y = b.raw({Op::kContract, DType::kFloat32, result, {b.view(x, windows), w}, labels});
  std::vector<HostTensor> inputs{random_tensor(random, c.dtype, image, -1, 1),
                                 random_tensor(random, c.dtype, weight, -1, 1)};
  if (c.has_epilogue) {
    NodeId bias = b.input(InputKind::kUser, DType::kFloat32, {c.columns}, "bias");
    NodeId other = b.input(InputKind::kUser, c.dtype, result, "other");
    y = b.binary(BinaryOp::kAdd, y, bias);
    y = b.binary(BinaryOp::kAdd, y, b.cast(other, DType::kFloat32));
    y = b.cast(b.binary(BinaryOp::kMax, y, b.scalar(DType::kFloat32, 0)), c.dtype);
    if (has_images) out.insert(out.begin(), c.images);
    out.push_back(c.columns);
    inputs.push_back(random_tensor(random, DType::kFloat32, {c.columns}, -1, 1));
    inputs.push_back(random_tensor(random, c.dtype, out, -1, 1));
  }
  b.output(y);
  batch.add(Template::kTile, std::move(schedule), b.finish(), std::move(inputs));
}

}  // namespace testing_codegen
