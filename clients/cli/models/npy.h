// NumPy array files (.npy), in which inputs come and outputs go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/runtime/tensor/tensor.h"

namespace clients {

// What an array file says about its elements, and where they are.
struct NpyArray {
  char kind = 'f';     // 'b' bool, 'i' and 'u' integers, 'f' floats, 'c' complex
  int item_bytes = 4;  // of one element
  bool fortran_order = false;
  std::vector<int64_t> sizes;
  common::ByteView data;  // inside the file's bytes
};

// Format versions 1 to 3, little-endian numbers of 1 to 16 bytes. kInvalidInput says what is wrong
// with the file; nothing beyond its end is read, whatever it holds.
common::Result<NpyArray> parse_npy(common::ByteView file);

// "float32[2, 3]", as NumPy names it.
std::string npy_type_text(const NpyArray& array);

// A row-major copy. The element type must be `dtype`'s, where bfloat16 comes as its bits in uint16
// and, with `complex`, pairs of float32 or float64 come as complex numbers: the tensor then has a
// last axis of two. kInvalidInput names both types when they differ.
common::Result<common::HostTensor> tensor_from_npy(const NpyArray& array, common::DType dtype,
                                                   bool complex);
// The inverse: a whole file, version 1, row-major.
common::Bytes npy_from_tensor(const common::HostTensor& tensor, bool complex);

// parse_npy and tensor_from_npy on a file; messages name it.
common::Result<common::HostTensor> read_npy(const std::string& path, common::DType dtype,
                                            bool complex);
// npy_from_tensor into a file, atomically.
common::Status write_npy(const std::string& path, const common::HostTensor& tensor, bool complex);

}  // namespace clients
