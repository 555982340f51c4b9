// Windows of images that a view made larger: mirrored, repeated or wrapped around at the border, or
// with each place several times.
//
// Where a model pads an image so and convolves it, the two views are one, whose positions are no
// sums of strides:
//   max(i2 + i5 - 1, 1 - i2 - i5)     the border mirrors the image
//   (i2 + i5) // 2                    each place twice
//   (i2 + i5) // 2, (i2 + i5) % 2     pixels that were channels (pixel shuffle)
// As two views, the outer one has windows like those of any other image, and the inner one the
// border. A copy of what the inner one shows can be read in order.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/hlir/view.h"

namespace coordinator {

struct BorderedWindows {
  common::View border;   // of the image: the image with its border
  common::View windows;  // of what `border` gives
};
// Empty unless positions along some axis of an image of shape `image` are those of overlapping
// windows of such a view, of constant size along that axis.
std::optional<BorderedWindows> bordered_windows(const common::View& view,
                                                const common::Shape& image,
                                                const std::vector<common::SymbolRange>& symbols);

// The same where the windows ask along the image's last axis whether they are within the image,
// whose border is the view's fill.
std::optional<BorderedWindows> zero_bordered_windows(const common::View& view,
                                                     const common::Shape& image);

}  // namespace coordinator
