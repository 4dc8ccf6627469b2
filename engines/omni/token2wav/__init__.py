"""From speech codes to 24 kHz sound: flow encoder, diffusion transformer, vocoder, and the stream of them."""
