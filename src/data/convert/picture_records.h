// Picture records: listed pictures as TFRecord files with the keys of ImageNet's (docs/formats.md).
#pragma once

#include <functional>

#include "src/data/convert/picture_list.h"
#include "src/data/convert/shard_writer.h"

namespace carillon {

struct PictureConversion {
  std::int64_t resize_shorter = 0;  ///< pictures whose shorter side is longer are reduced to it; 0: none
  int quality = 95;                 ///< of JPEG files that are written anew
  bool skip_damaged = false;
  std::size_t shard_count = 1;
};

/// Makes `pictures` the shards of split `name`, in their order, encoded on all of the process's cores. A picture is
/// kept as the file that it is, but for reduced ones, and CMYK, which many programs take for RGB: those become JPEG.
/// Every picture is decoded to its end. A damaged one ends it, or is told to `warn` and left out. `progress(done)` is
/// called now and then. Errors: no_input, data, io, naming the file; those of make_shards.
CompleteSplit make_picture_shards(const std::string& name, const std::vector<ListedPicture>& pictures,
                                  const std::vector<std::string>& classes, const PictureConversion& conversion,
                                  const std::filesystem::path& directory,
                                  const std::function<void(const std::string&)>& warn,
                                  const std::function<void(std::size_t)>& progress);

}  // namespace carillon
