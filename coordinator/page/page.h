// The files of the farm's live page, as they lay in this folder when the program was built.
#pragma once

#include <span>
#include <string_view>

namespace coordinator {

struct PageFile {
  std::string_view path;  // "/page/style.css"; the page itself is "/"
  std::string_view type;  // a media type
  std::string_view text;
};

std::span<const PageFile> page_files();

}  // namespace coordinator
