/* Search in pages that are opened as files.  Browsers start no web worker from file:// addresses,
   so the script of the worker runs in a hidden frame of the same page instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      this.ready = new Promise(resolve => {
        inside.document.open()
        inside.document.write("<!doctype html><title>search</title>")
        inside.document.close()
        inside.postMessage = data => this.receive(data)
        inside.__index = window.__index
        const script = inside.document.createElement("script")
        script.src = new URL(url, document.baseURI).href
        script.onload = resolve
        inside.document.head.appendChild(script)
      })
    }
    receive(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }
    postMessage(data) {
      this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() { this.frame.remove() }
  }
}
