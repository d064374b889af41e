// JpegHuffmanReader: the Huffman-coded data of a JPEG (ITU-T T.81, F.2.2), read in libjpeg's place and faster: a
// look-up gives one coefficient or two with their runs and values, and blocks without a wanted pixel are passed over,
// some symbols at a time. All else (markers, transforms, colours) stays libjpeg's, and so do the pixels.
#pragma once

#include <memory>

#include "src/images/libjpeg.h"

namespace carillon {

class JpegHuffmanReader {
 public:
  JpegHuffmanReader();
  ~JpegHuffmanReader();
  JpegHuffmanReader(const JpegHuffmanReader&) = delete;
  JpegHuffmanReader& operator=(const JpegHuffmanReader&) = delete;

  /// Takes libjpeg's place for a picture in memory, of whose columns, as they come, `count` are wanted from `first` on:
  /// behind jpeg_start_decompress and jpeg_crop_scanline, before the first row. Takes `client_data`, and lives as long.
  /// False, and nothing is done: the picture has several scans, or arithmetic coding, or this libjpeg's parts are
  /// unknown.
  ///
  /// Where the data are not as they should be, it calls error_exit and has given up: libjpeg alone is then to decode
  /// the picture, and says what is wrong, or makes of it what can be made.
  bool install(jpeg_decompress_struct& jpeg, JDIMENSION first, JDIMENSION count);

  /// Whether it has since the last call of this.
  bool gave_up();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace carillon
