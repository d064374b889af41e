// RecordForm: which decoder reads the records of a program, and what the records contain.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "carillon/data/labelled_images.h"

namespace carillon {

enum class RecordUse { training, evaluation };

/// Features of a record that replace the form's own; empty: the form's.
struct RecordKeys {
  std::string image, target;
};

/// Makes the decoder of records.
using MakeDecoder = std::function<std::unique_ptr<RecordDecoder>(RecordSchema schema, RecordUse use)>;

/// The form of a program's records.
struct RecordForm {
  MakeDecoder make_decoder;
  RecordSchema schema;
  bool decoder_distorts = false;  ///< the decoder distorts the images of training; the network must not

  /// The decoder of records with these features.
  std::unique_ptr<RecordDecoder> decoder(const RecordKeys& keys, RecordUse use) const;
};

/// Makers of decoders of grey and of planar images (data/labelled_images.h).
std::unique_ptr<RecordDecoder> grey_records(RecordSchema schema, RecordUse use);
std::unique_ptr<RecordDecoder> planar_records(RecordSchema schema, RecordUse use);

}  // namespace carillon
