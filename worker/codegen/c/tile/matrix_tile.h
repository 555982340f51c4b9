// A register tile of processors that multiply matrices: AMX with bfloat16 (Intel, Instruction Set
// Extensions, chapter 3). Eight registers of 16 rows of 64 bytes hold sums, rows and columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/lowering/text/code_writer.h"
#include "common/schedule/kernels/register_tiling.h"

namespace worker {

// All addresses are C and of 32-bit pairs, but for sums, which are floats.
struct MatrixTile {
  common::RegisterTiling tiling;  // its rows and columns are whole registers
  std::string left;               // the first row's first step; rows lie `left_stride` apart
  int64_t left_stride = 0;
  std::vector<std::string> right;  // the first step of 16 columns each; steps `right_stride` apart
  int64_t right_stride = 0;
  std::string earlier;  // sums of earlier steps, if `has_earlier`; "": there are none
  std::string has_earlier;
  std::string steps;  // how many
  std::string whole;  // how many of them are whole pairs
  std::string to;     // where sums go, row-major
};

// Writes the multiplication: 16 steps at a time, what is left over by vectors.
void emit_matrix_tile(common::CodeWriter& writer, const MatrixTile& tile);

}  // namespace worker
