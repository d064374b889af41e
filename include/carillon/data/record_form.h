// RecordForm: the record format of a program, which is the schema of the records and the decoder that reads them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "carillon/data/labelled_images.h"

namespace carillon {

enum class RecordUse { training, evaluation };

/// Feature names that replace the default names of the format; an empty name keeps the default.
struct RecordKeys {
  std::string image, target;
};

/// Creates the decoder of the records. Images for evaluation may have another shape than images for training if the
/// network has the same variables for both shapes.
using MakeDecoder = std::function<std::unique_ptr<RecordDecoder>(RecordSchema schema, RecordUse use)>;

/// Record format of a program.
struct RecordForm {
  MakeDecoder make_decoder;
  RecordSchema schema;            ///< its image shape: that of training images
  bool decoder_distorts = false;  ///< the decoder distorts training images, so the network must not

  /// Creates a decoder that reads these features.
  std::unique_ptr<RecordDecoder> decoder(const RecordKeys& keys, RecordUse use) const;
};

/// Factories of grey and planar image decoders (data/labelled_images.h).
std::unique_ptr<RecordDecoder> grey_records(RecordSchema schema, RecordUse use);
std::unique_ptr<RecordDecoder> planar_records(RecordSchema schema, RecordUse use);

}  // namespace carillon
