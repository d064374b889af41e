// Picture records: writes listed pictures to TFRecord files with the keys of ImageNet's records.
// Format: docs/developer-guide/file-formats.md.
#pragma once

#include <functional>

#include "carillon/images/decode.h"
#include "src/data/convert/picture_list.h"
#include "src/data/convert/shard_writer.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {

struct PictureConversion {
  Colour background = {};           ///< behind transparent pixels
  std::int64_t resize_shorter = 0;  ///< larger pictures are reduced to this shorter side, in pixels; 0: disabled
  int quality = 95;                 ///< JPEG quality of re-encoded pictures
  bool skip_damaged = false;
  std::size_t shard_count = 1;
};

/// Writes `pictures`, in their order, as the shards of split `name`; encodes on all cores of the process. `info`:
/// keys, names and kind of the targets. The image file is stored without change, with these exceptions: reduced
/// pictures and CMYK pictures are re-encoded as JPEG (many programs treat CMYK as RGB); other formats than JPEG and
/// PNG, and transparent pictures with a background that is not white, are re-encoded as PNG. Every picture is decoded
/// completely. A damaged picture is an error or, with skip_damaged, is reported to `warn` and skipped. Calls
/// `progress(done)` from time to time. Errors: no_input, data, io, naming the file; as make_shards.
CompleteSplit make_picture_shards(const std::string& name, const std::vector<ListedPicture>& pictures,
                                  const DatasetInfo& info, const PictureConversion& conversion,
                                  const std::filesystem::path& directory,
                                  const std::function<void(const std::string&)>& warn,
                                  const std::function<void(std::size_t)>& progress);

}  // namespace carillon
